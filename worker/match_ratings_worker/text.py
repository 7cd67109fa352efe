"""Text that is safe to show: nothing from a message reaches a log line or a terminal unescaped."""

from __future__ import annotations

import json

__all__ = ["printable", "quote"]


def printable(text: str) -> str:
    """The text with every character that a terminal might act on, or not show, escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def quote(value: object, limit: int = 80) -> str:
    """A value as short, safe text: JSON, unprintable characters escaped, at most `limit` characters."""
    try:
        text = printable(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        text = '"..."'
    return text if len(text) <= limit else text[: limit - 3] + "..."
