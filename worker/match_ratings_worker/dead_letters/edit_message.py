"""Putting a dead letter's message right: set single values, judge the result, keep what was before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from match_ratings import Reason
from match_ratings_worker.dead_letters.dry_run import DryRun, Verdict
from match_ratings_worker.dead_letters.edit_history import extended, message_parts
from match_ratings_worker.dead_letters.letter_store import Letters, Setup
from match_ratings_worker.dead_letters.replay_outcome import Outcome
from match_ratings_worker.queries import DeadLetterEntry, server_time
from match_ratings_worker.text import quote

__all__ = ["Edited", "NotAllowed", "assigned", "edit", "is_wrong"]

_EDITED: Final = "edited; before: "


class NotAllowed(Exception):
    """An edit cannot be made; the text is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Edited:
    """What came of an edit."""

    #: What would become of the edited message.
    verdict: Verdict
    #: Its id as a dead letter now; "" when it was not stored: it is still wrong, or gone.
    now: str
    #: Whether the letter was no longer there: replayed, discarded, or edited by somebody else.
    gone: bool = False


def assigned(message: bytes, values: Iterable[tuple[str, str]], without: Iterable[str] = ()) -> bytes:
    """The message with values set at paths such as `cube` or `players.0`, and paths taken out.

    A value is read as JSON if it is JSON, else as text. Raises NotAllowed.
    """
    try:
        data: Any = json.loads(message)
    except (ValueError, RecursionError):
        raise NotAllowed(
            "message: it is not JSON, so no value in it can be set; edit it as a whole"
        ) from None
    if not isinstance(data, dict):
        raise NotAllowed("message: it is not a JSON object, so no value in it can be set; edit it as a whole")
    for path, text in values:
        *way, last = path.split(".")
        _put(_at(data, way, path), last, _value(text), path)
    for path in without:
        *way, last = path.split(".")
        _take(_at(data, way, path), last, path)
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(data, ensure_ascii=True).encode()


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _at(data: Any, way: list[str], path: str) -> Any:
    for name in way:
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
            data = data[int(name)]
        else:
            raise NotAllowed(f"{quote(path)}: there is no {quote(name)} in the message")
    return data


def _put(data: Any, name: str, value: Any, path: str) -> None:
    if isinstance(data, dict) and name:
        data[name] = value
    elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
        data[int(name)] = value
    elif isinstance(data, list) and name.isdecimal() and int(name) == len(data):
        data.append(value)
    else:
        raise NotAllowed(f"{quote(path)}: this place cannot be set in the message")


def _take(data: Any, name: str, path: str) -> None:
    if isinstance(data, dict) and name in data:
        del data[name]
    elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
        del data[int(name)]
    else:
        raise NotAllowed(f"{quote(path)}: there is nothing to take out of the message")


def is_wrong(verdict: Verdict) -> bool:
    """Whether a message would be a dead letter again, for what it says."""
    if verdict.outcome is Outcome.PARKED:  # time, or --force-late, can help it
        return verdict.reason == Reason.UNSUPPORTED_VERSION
    return verdict.outcome in (Outcome.STILL_WRONG, Outcome.CONFLICT)


async def edit(
    letters: Letters,
    setup: Setup,
    letter: DeadLetterEntry,
    message: bytes,
    *,
    who: str,
    why: str,
    anyway: bool = False,
) -> Edited:
    """Puts an edited message in the place of a letter's; one that is still wrong only `anyway`."""
    now = await server_time(letters.redis, letters.keys.inbox)
    forecast = await DryRun.open(letters.redis, setup)
    [verdict] = await forecast.of([(replace(letter, message=message), False)], now=now)
    if is_wrong(verdict) and not anyway:
        return Edited(verdict, "")
    if verdict.reason:
        reason, detail = verdict.reason, verdict.detail
    else:
        reason, detail = letter.reason, _EDITED + letter.detail.removeprefix(_EDITED)
    history = extended(
        letter.history, at=now, who=who, why=why, letter=letter.id, **message_parts(letter.message)
    )
    new_id = await letters.edit(letter, message, reason=reason, detail=detail, history=history)
    return Edited(verdict, new_id, gone=not new_id)


def laid_out(message: bytes) -> bytes:
    """A message for an editor: JSON over several lines, anything else as it is."""
    try:
        return json.dumps(json.loads(message), indent=2, ensure_ascii=False).encode() + b"\n"
    except (ValueError, RecursionError):
        return message


def compact(edited: bytes) -> bytes:
    """What came out of an editor: JSON on one line, anything else as it is."""
    try:
        return json.dumps(json.loads(edited), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return edited
