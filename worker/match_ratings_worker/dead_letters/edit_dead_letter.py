"""Edit a dead letter's message: set values, check the result, keep the earlier message in the history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle, message_fields, server_time

from .dead_letter_store import DeadLetterStore
from .dry_run import DryRun, DryRunResult

_EDITED: Final = "edited; before: "


class InvalidEdit(Exception):
    """Raised when a value cannot be set or removed; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """Outcome of an edit."""

    #: Prediction for the edited message.
    dry_run: DryRunResult
    #: Its new id as a dead letter; empty when it was not stored, since it is still wrong, or gone.
    new_id: str
    #: Whether the letter no longer existed: replayed, discarded, or edited by somebody else.
    gone: bool = False


def edited_message(message: bytes, values: Iterable[tuple[str, str]], removed: Iterable[str] = ()) -> bytes:
    """The message with values set at paths such as `cube` or `players.0`, and paths removed.

    A value that is no JSON is text. Raises InvalidEdit.
    """
    try:
        data: Any = json.loads(message)
    except (ValueError, RecursionError):
        raise InvalidEdit(
            "message: it is not JSON, so no value in it can be set; edit it as a whole"
        ) from None
    if not isinstance(data, dict):
        raise InvalidEdit(
            "message: it is not a JSON object, so no value in it can be set; edit it as a whole"
        )
    for path, text in values:
        *way, last = path.split(".")
        _set(_at(data, way, path), last, _value(text), path)
    for path in removed:
        *way, last = path.split(".")
        _remove(_at(data, way, path), last, path)
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
            raise InvalidEdit(f"{quote(path)}: there is no {quote(name)} in the message")
    return data


def _set(data: Any, name: str, value: Any, path: str) -> None:
    if isinstance(data, dict) and name:
        data[name] = value
    elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
        data[int(name)] = value
    elif isinstance(data, list) and name.isdecimal() and int(name) == len(data):
        data.append(value)
    else:
        raise InvalidEdit(f"{quote(path)}: this place cannot be set in the message")


def _remove(data: Any, name: str, path: str) -> None:
    if isinstance(data, dict) and name in data:
        del data[name]
    elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
        del data[int(name)]
    else:
        raise InvalidEdit(f"{quote(path)}: there is nothing to remove from the message")


async def edit_dead_letter(
    ladder: LadderHandle, letter: DeadLetterEntry, message: bytes, *, by: str, why: str, force: bool = False
) -> EditResult:
    """Replace a letter's message; one that is still wrong is stored only with `force`."""
    now = await server_time(ladder.redis, ladder.keys.inbox)
    dry_run = await DryRun.open(ladder)
    [result] = await dry_run.of([(replace(letter, message=message), False)], now=now)
    if result.is_wrong and not force:
        return EditResult(result, "")
    if result.reason:
        reason, detail = result.reason, result.detail
    else:
        reason, detail = letter.reason, _EDITED + letter.detail.removeprefix(_EDITED)
    history = letter.with_history(at=now, by=by, why=why, letter=letter.id, **message_fields(letter.message))
    new_id = await DeadLetterStore(ladder).replace(
        letter, message, reason=reason, detail=detail, history=history
    )
    return EditResult(result, new_id, gone=not new_id)


def format_message(message: bytes) -> bytes:
    """A message for an editor: JSON on several lines, anything else unchanged."""
    try:
        return json.dumps(json.loads(message), indent=2, ensure_ascii=False).encode() + b"\n"
    except (ValueError, RecursionError):
        return message


def minify_message(edited: bytes) -> bytes:
    """A message from an editor: JSON on one line, anything else unchanged."""
    try:
        return json.dumps(json.loads(edited), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return edited
