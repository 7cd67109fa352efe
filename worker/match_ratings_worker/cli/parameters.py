"""Numbers, times and ids of the command line: one parser and one sentence for each kind.

Every error names the option or argument, its value, and what is allowed.
"""

from __future__ import annotations

import re
from functools import partial
from math import isfinite, nan
from typing import Any, Final

import typer
from pydantic import TypeAdapter, ValidationError

from match_ratings.messages import Id, milliseconds
from match_ratings_worker.rating import Number
from match_ratings_worker.time_units import DAY_MS, now_ms

from .exit_codes import refuse

_UNITS_MS: Final = {"min": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_ID: Final = TypeAdapter(Id)


def integer_option(name: str, low: int, high: int | None = None, *, help: str, metavar: str = "N") -> Any:
    """An option, for `Annotated[int, ...]`, that takes a whole number from `low` to `high`."""
    allowed = f"a whole number from {low}" + ("" if high is None else f" to {high}")

    def parse(given: object) -> int:
        text = str(given)  # the default is parsed, too
        value = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
        if value is None or value < low or (high is not None and value > high):
            refuse(name, text, f"use {allowed}")
        return value

    return typer.Option(name, parser=parse, metavar=metavar, help=help)


def number_option(name: str, low: float, *, help: str, metavar: str = "N") -> Any:
    """An option, for `Annotated[float, ...]`, that takes a number from `low`."""

    def parse(given: object) -> float:
        return float(parse_number(name, str(given), low=low))

    return typer.Option(name, parser=parse, metavar=metavar, help=help)


def id_option(name: str, *, help: str, metavar: str = "PLAYER") -> Any:
    """An option, for `Annotated[str, ...]`, that takes the id of a match or player."""
    return typer.Option(name, parser=partial(checked_id, name), metavar=metavar, help=help)


def id_argument(name: str, *, help: str) -> Any:
    """An argument, for `Annotated[str, ...]`, that takes the id of a match or player."""
    return typer.Argument(parser=partial(checked_id, name), metavar=name, help=help)


def parse_number(name: str, text: str, *, low: float | None = None, whole: bool = False) -> Number:
    """A number; integers stay integers. `name` is the option or argument that it was given for."""
    value: Number
    try:
        value = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            value = nan
    if not isfinite(value) or (low is not None and value < low) or (whole and value != int(value)):
        kind = "whole number" if whole else "number"
        refuse(name, text, f"use a {kind} from {low:g}" if low is not None else f"use a {kind}")
    return int(value) if whole else value


def parse_numbers(name: str, text: str, *, low: float | None = None, whole: bool = False) -> list[Number]:
    """Numbers separated by commas."""
    return [parse_number(name, part.strip(), low=low, whole=whole) for part in text.split(",")]


def parse_time(name: str, text: str, now: int) -> int:
    """A time in ms: RFC 3339 with an offset, a day (UTC), ms, or a time span before `now` (ms) such as 7d."""
    if text.isascii() and text.isdigit() and len(text) > 11:
        return int(text[:15])
    if ago := re.fullmatch(r"([0-9]{1,6})(min|h|d|w)", text):
        return max(now - int(ago[1]) * _UNITS_MS[ago[2]], 0)
    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else text
    try:
        return milliseconds(whole)
    except ValueError:
        allowed = "a time such as 2026-11-29T12:00:00Z, a day such as 2026-11-29 (UTC), or 30min, 12h, 7d, 2w"
        refuse(name, text, f"use {allowed}")


def time_or_now(name: str, text: str | None) -> int:
    """The time in ms of an option that may be missing: then it is now."""
    now = now_ms()
    return now if text is None else parse_time(name, text, now)


def checked_id(name: str, value: str) -> str:
    """The id of a match or player, if a message could have it."""
    try:
        return _ID.validate_python(value)
    except ValidationError:
        refuse(name, value, "1-128 characters without control characters are")
