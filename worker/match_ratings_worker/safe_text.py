"""Safe, short text: values and errors as they appear in log lines, dead letters and terminals."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import ValidationError


#: Problem's type -> what is allowed, where pydantic's own text says less.
_ALLOWED: Final = {
    "missing": "it is required",
    "extra_forbidden": "there is no field of this name",
    "string_pattern_mismatch": "1-128 characters without control characters are allowed",
}


def printable(text: str) -> str:
    """Escape every character that a terminal acts on or does not show."""
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


def dotted(path: tuple[int | str, ...]) -> str:
    """Where a value is in a JSON document, such as players.0; safe to show."""
    return ".".join(quote(part, 40).strip('"') for part in path)


def describe_error(
    error: ValidationError,
    *,
    whole: str = "message",
    name: Callable[[str], str] = str,
    hints: Mapping[str, str] | None = None,
    hidden: Container[str] = (),
) -> str:
    """One sentence on the first problem that pydantic found: the field, its value and what is allowed.

    The options are those of `describe_problem`.
    """
    item = error.errors(include_url=False)[0]
    return describe_problem(item, whole=whole, name=name, hints=hints, hidden=hidden)


def describe_problem(
    item: Any,
    *,
    whole: str = "message",
    name: Callable[[str], str] = str,
    hints: Mapping[str, str] | None = None,
    hidden: Container[str] = (),
) -> str:
    """One sentence on an item of `ValidationError.errors()`.

    `whole` names the document, for problems of no single field; `name` turns a field's dotted path into
    the reader's word for it; `hints` replaces pydantic's text on what is allowed, by the problem's type;
    values of top-level fields in `hidden` are not shown.
    """
    kind, path = item["type"], item["loc"]
    own, text = kind == "value_error", item["msg"].removeprefix("Value error, ")
    text = {**_ALLOWED, **(hints or {})}.get(kind, text if own else text[:1].lower() + text[1:])
    if not path:
        if kind in ("model_type", "model_attributes_type"):
            text = f"{quote(item['input'])} is not a JSON object"
        return f"{whole}: {text}" if whole else text
    where = name(dotted(path))
    if kind in ("missing", "extra_forbidden"):
        return f"{where}: {text}"
    value = "the value" if path[0] in hidden else quote(item["input"])
    return f"{where}: {value} is not allowed: {text}"
