"""Find what is wrong with a message, where, and what would make it valid. Pure: no I/O, no clock."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from match_ratings import MatchFinished, Reason
from match_ratings.messages import CUBES, VERSION, Ending, Mode, WinType
from match_ratings.stream_names import MAX_MESSAGE_BYTES
from match_ratings_worker.pipeline import Problem, message_model
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle
from match_ratings_worker.time_units import DAY_MS

from .dry_run import read_dead_letter

#: Bytes, or characters, shown on each side of a fault.
_AROUND: Final = 20
#: Numbers that are seconds since 1970, given where milliseconds are meant.
_SECONDS: Final = range(100_000_000, 100_000_000_000)


def _one_of(values: Any) -> str:
    return "one of " + ", ".join(str(value) for value in values)


#: Field -> its allowed values, for people.
_ALLOWED: Final = {
    "match_id": "1-128 characters without control characters",
    "tournament_id": "1-128 characters without control characters",
    "ladder": "the ladder's name: lower-case letters, digits and single hyphens",
    "mode": _one_of(Mode),
    "players": "two different player ids, each of 1-128 characters without control characters",
    "podium": "1-16 different player ids, first place first",
    "prizes": "whole numbers from -1000 to 1000, as many as the podium has places",
    "winner": "one of the two players, or null for a draw where the system has draws",
    "cube": _one_of(CUBES),
    "length": "a whole number from 1 to 1000, or left out",
    "win_type": _one_of(WinType),
    "ending": _one_of(Ending),
    "finished_at": "a time with an offset such as 2026-11-29T12:00:00Z, or whole milliseconds since 1970",
    "version": f"a whole number, {VERSION} at most here",
    "type": "match-finished (or left out), tournament-finished or match-voided",
    "public": "true or false",
    "why": "1-500 characters",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault of a message. All texts are safe to print."""

    #: The field, or the position in the message.
    where: str
    #: The fault.
    what: str
    #: Values that would be valid.
    allowed: str
    #: The value probably meant, as `match-ratings dead-letters edit --set` takes it; empty for none.
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A message as the workers read it."""

    problem: Problem | None
    troubles: list[Trouble] = field(default_factory=list)
    #: Name and value (JSON, safe to print) of each field; empty unless it is a JSON object.
    fields: list[tuple[str, str]] = field(default_factory=list)


def diagnose(raw: bytes, ladder: LadderHandle, now: int) -> Diagnosis:
    """Read a message by this installation's settings at `now`, in ms."""
    read = read_dead_letter(raw, ladder, now)
    problem = read if isinstance(read, Problem) else None
    data = _parsed(raw)
    fields = [(quote(name).strip('"'), quote(value, 300)) for name, value in (data or {}).items()]
    if problem is None:
        return Diagnosis(None, [], fields)
    if data is None:
        return Diagnosis(problem, [_not_json(raw)], fields)
    troubles = _in_fields(raw, data) or [_as_a_whole(problem, data, ladder)]
    return Diagnosis(problem, troubles, fields)


def trouble_of(problem: Problem) -> Trouble:
    """The fault of a message that is well formed, but refused by the ladder's rules or data."""
    where, colon, what = problem.detail.partition(": ")
    if problem.reason is Reason.CONFLICT:
        allowed = (
            "the content that was rated (match-ratings explain); if this one is right, void that match and "
            "send this one under a new id, else discard it"
        )
        return Trouble("content", problem.detail, allowed)
    if problem.reason is Reason.FAILED:
        return Trouble("rating", problem.detail, "nothing in the message: fix the cause, then replay it")
    if not colon or where not in _ALLOWED:
        return Trouble("message", problem.detail, "a message that the ladder's rules can rate")
    return Trouble(where, what, _ALLOWED[where])


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _not_json(raw: bytes) -> Trouble:
    wanted = "one JSON object in UTF-8"
    if len(raw) > MAX_MESSAGE_BYTES:
        return Trouble("message", f"{len(raw)} bytes", f"{MAX_MESSAGE_BYTES} bytes at most")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        around = quote(raw[max(error.start - _AROUND, 0) : error.start].decode("utf-8", "backslashreplace"))
        what = f"the byte 0x{raw[error.start]:02x} after {around} is not UTF-8"
        return Trouble(f"byte {error.start}", what, wanted)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = error.pos
        if error.msg.startswith(
            "Illegal trailing comma"
        ):  # Python 3.13 names the comma, older ones what follows
            place += len(text[place:]) - len(text[place:].lstrip(", \t\r\n"))
        before = quote(text[max(place - _AROUND, 0) : place])
        after = quote(text[place : place + _AROUND])
        what = f"{error.msg[:1].lower()}{error.msg[1:]}, between {before} and {after}"
        line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
        return Trouble(f"line {line}, column {column}", what, wanted)
    except (ValueError, RecursionError):
        return Trouble("message", "it is nested too deep or has a number that is too long", wanted)
    return Trouble("message", f"{quote(value)} is not an object", wanted)


def _in_fields(raw: bytes, data: dict[str, Any]) -> list[Trouble]:
    try:
        (message_model(raw) or MatchFinished).model_validate_json(raw)
    except ValidationError as error:
        return [_field(item, data) for item in error.errors(include_url=False)]
    return []


def _field(item: Any, data: dict[str, Any]) -> Trouble:
    name = str(item["loc"][0]) if item["loc"] else ""
    if not name:  # about the whole message: the text begins with the field
        words = re.match(r"\w*", item["msg"])
        name = words[0] if words else ""
        allowed = _ALLOWED.get(name, item["msg"])
        what = f"{quote(data[name])} is not allowed" if name in data else item["msg"]
        return Trouble(name or "message", what, allowed, _suggestion(name, data.get(name), data))
    where = ".".join(quote(part, 40).strip('"') for part in item["loc"])
    allowed = _ALLOWED.get(name, item["msg"][:1].lower() + item["msg"][1:])
    if item["type"] == "missing":
        return Trouble(where, "it is missing", allowed)
    return Trouble(
        where, f"{quote(item['input'])} is not allowed", allowed, _suggestion(where, item["input"], data)
    )


def _suggestion(where: str, value: object, data: dict[str, Any]) -> str:
    """The value probably meant, where only one makes sense."""
    value_meant: object = None
    if where == "finished_at" and type(value) is int and value in _SECONDS:
        value_meant = value * 1000
    elif where == "winner" and isinstance(value, str) and isinstance(data.get("players"), list):
        same = [
            name
            for name in data["players"]
            if isinstance(name, str) and name.strip().casefold() == value.strip().casefold()
        ]
        value_meant = same[0] if len(same) == 1 else None
    elif where in ("cube", "length", "version") and _is_whole(value):
        value_meant = int(str(value).partition(".")[0])
    return "" if value_meant is None else setting(where, value_meant)


def _is_whole(value: object) -> bool:
    """Whether it is a whole number as text, or with a decimal point."""
    return (
        isinstance(value, str | float) and re.fullmatch(r"[0-9]{1,9}(\.0)?", str(value), re.ASCII) is not None
    )


def setting(path: str, value: object) -> str:
    """`path=value`, quoted for a shell, ASCII only."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*", value, re.ASCII)
    text = value if plain and value not in ("true", "false", "null") else json.dumps(value)
    return shlex.quote(f"{path}={text}".replace("\x7f", "\\u007f"))


def _as_a_whole(problem: Problem, data: dict[str, Any], ladder: LadderHandle) -> Trouble:
    where, _, what = problem.detail.partition(": ")
    days = ladder.horizon_ms / DAY_MS
    ways = {
        Reason.UNSUPPORTED_VERSION: ("replay it after an upgrade of the workers", ""),
        Reason.WRONG_LADDER: (
            "send it to its own ladder and discard it here; or, if it belongs here, set the ladder",
            setting("ladder", ladder.name),
        ),
        Reason.CLOCK_SKEW: ("replay it when its time has come, or set the time that is right", ""),
        Reason.TOO_LATE: (
            f"a replay within {days:g} days; now only replay --force-late, if it was not rated",
            "",
        ),
    }
    allowed, suggestion = ways.get(problem.reason, ("a message that all parsers read alike", ""))
    return Trouble(where, what, allowed, suggestion)
