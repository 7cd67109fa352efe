"""A dead letter's history: a JSON array of what people did to it, oldest first."""

from __future__ import annotations

import base64
import json
from typing import Any

__all__ = ["entries", "extended", "message_parts"]


def entries(history: str) -> list[dict[str, Any]]:
    """The items of a history; what nobody of ours wrote is kept as one item."""
    if not history:
        return []
    try:
        found = json.loads(history)
    except (ValueError, RecursionError):
        return [{"unreadable": history}]
    if isinstance(found, list) and all(isinstance(item, dict) for item in found):
        return found
    return [{"unreadable": history}]


def extended(history: str, *, at: int, who: str, why: str, **item: Any) -> str:
    """The history with one item more, as ASCII; `at` in ms."""
    return json.dumps([*entries(history), {"at": at, "who": who, "why": why, **item}], ensure_ascii=True)


def message_parts(message: bytes, name: str = "message") -> dict[str, str]:
    """A message for JSON: as text, or in base 64 when it is not UTF-8."""
    try:
        return {name: message.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(message).decode()}
