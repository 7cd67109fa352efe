"""Validates a raw message: the message, or why it cannot be rated. Pure: no I/O, no clock."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

import orjson
from pydantic import ValidationError

from match_ratings import MatchFinished, MatchVoided, Reason, TournamentFinished
from match_ratings.messages import MESSAGE_TYPES, VERSION, Message
from match_ratings.stream_names import MAX_MESSAGE_BYTES
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.safe_text import describe_problem, printable, quote
from match_ratings_worker.time_units import CLOCK_SKEW_MS, DAY_MS

#: Message kind -> model.
_MODELS: Final[dict[str, type[Message]]] = {model.kind: model for model in MESSAGE_TYPES.values()}

_LADDER_NAMES: Final = "lower-case letters, digits and single hyphens are allowed"


class Problem(NamedTuple):
    """Why a message cannot be rated: the code and one sentence for a person."""

    reason: Reason
    detail: str


def read_message(
    raw: bytes | None, *, ladder: str, kind: str, now: int, horizon: int, force_late: bool = False
) -> Message | Problem:
    """The message in `raw`, or the problem with it; None stands for an entry without a message.

    `kind` is a message kind by the claim script, or "" when the script could not read the message.
    `now` is the server's time and `horizon` the greatest age of a match, both in ms. With `force_late` no
    match is too old: somebody has made sure that it was not rated.
    """
    if raw is not None and len(raw) > MAX_MESSAGE_BYTES:
        return too_large(len(raw))
    if raw is None:
        return Problem(Reason.MALFORMED, "message: the stream entry has no field of this name")
    try:
        message: Message = (_MODELS.get(kind) or message_model(raw) or MatchFinished).model_validate_json(raw)
    except ValidationError as error:
        return _explain(raw, error)
    if message.version > VERSION:
        return _unsupported(message.version)
    if not kind:
        return misread_by_parsers()
    if message.ladder != ladder:
        return Problem(
            Reason.WRONG_LADDER,
            f"ladder: {quote(message.ladder)} was sent to the stream of {quote(ladder)}; send it to its own",
        )
    if message.finished_at > now + CLOCK_SKEW_MS:
        ahead = (message.finished_at - now) // 1000
        return Problem(
            Reason.CLOCK_SKEW,
            f"finished_at: {message.finished_at} is {ahead} s ahead of the server's clock; "
            f"at most {CLOCK_SKEW_MS // 1000} s are allowed",
        )
    if message.finished_at < now - horizon and not force_late:
        days = (now - message.finished_at) / DAY_MS
        return Problem(
            Reason.TOO_LATE,
            f"finished_at: {message.finished_at} is {days:.1f} days ago; "
            f"at most {horizon / DAY_MS:g} days are allowed",
        )
    return message


def too_large(size: int) -> Problem:
    """The problem of a message of `size` bytes, more than are allowed."""
    return Problem(Reason.MALFORMED, f"message: {size} bytes; at most {MAX_MESSAGE_BYTES} are allowed")


def misread_by_parsers() -> Problem:
    """The problem of a message that the claim script read otherwise than Python does."""
    return Problem(Reason.MALFORMED, "message: its players or id are read differently by different parsers")


def digest(message: Message, system: RatingSystem) -> str:
    """A short digest of what the rating depends on: 16 hex digits.

    A message sent again with other spacing, key order, time format or extra fields has the same one.
    """
    content: list[Any]
    if isinstance(message, TournamentFinished):
        content = [message.public, message.podium, message.prizes, message.finished_at]
    elif isinstance(message, MatchVoided):
        content = ["void", sorted(message.players)]
    else:
        players = message.players if system.order_matters else sorted(message.players)
        content = [message.mode.value, players, message.winner, message.finished_at]
        content += [getattr(message, name) for name in system.depends_on]
    return hashlib.blake2b(orjson.dumps(content), digest_size=8).hexdigest()


def message_model(raw: bytes) -> type[Message] | None:
    """The model that fits a message by its `type`, as the claim script decides; None if it is not JSON."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    name = data.get("type") if isinstance(data, dict) else None
    return MESSAGE_TYPES.get(name, MatchFinished) if isinstance(name, str) else MatchFinished


def _unsupported(version: object) -> Problem:
    return Problem(
        Reason.UNSUPPORTED_VERSION,
        f"version: {quote(version)} is newer than this worker knows ({VERSION}); replay it after an upgrade",
    )


def _explain(raw: bytes, error: ValidationError) -> Problem:
    problems = error.errors(include_url=False)
    if problems[0]["type"] == "json_invalid":
        text = printable(str(problems[0]["ctx"]["error"]))
        return Problem(Reason.MALFORMED, f"message: not JSON in UTF-8: {text}")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return Problem(Reason.MALFORMED, "message: not JSON in UTF-8, or nested too deep")
    if not isinstance(data, dict):
        return Problem(Reason.MALFORMED, f"message: {quote(data)} is not a JSON object")
    version = data.get("version")
    if isinstance(version, int) and version > VERSION:
        return _unsupported(version)
    if "type" in data and not (isinstance(data["type"], str) and data["type"] in MESSAGE_TYPES):
        known = ", ".join(MESSAGE_TYPES)
        return Problem(Reason.INVALID, f"type: {quote(data['type'])} is not allowed; use {known}")
    if any(item["type"] == "self_play" for item in problems):
        players = quote(data.get("players"))
        return Problem(
            Reason.SELF_PLAY, f"players: {players} is not allowed; a match has two different players"
        )
    return Problem(Reason.INVALID, "; ".join(_sentence(item, data) for item in problems[:3]))


def _sentence(item: Any, data: dict[str, Any]) -> str:
    if not item["loc"]:  # about the message as a whole; the problem's type is the field's name
        name = item["type"]
        return f"{name}: {quote(data.get(name))} is not allowed: {item['msg'].removeprefix(f'{name} ')}"
    of_ladder = item["loc"] == ("ladder",)
    return describe_problem(item, hints={"string_pattern_mismatch": _LADDER_NAMES} if of_ladder else None)
