"""Requests of the dead-letter jobs, as pydantic models."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from match_ratings import Reason
from match_ratings.messages import Id, Milliseconds
from match_ratings_worker.dead_letters import DeadLetterFilter, edited_message
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import is_stream_id

from .job_requests import LadderRequest, RequestRefused

#: A person or a reason, for the record.
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
_OptionalText = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]


def checked_letter_id(letter_id: str) -> str:
    """The same id; raises RequestRefused when no dead letter could have it."""
    if not is_stream_id(letter_id):
        raise RequestRefused(f"id: {quote(letter_id)} is not allowed; use one such as 1700000000000-0")
    return letter_id


class _Selection(LadderRequest):
    """Selects dead letters; an empty one selects all."""

    ids: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    reasons: frozenset[Reason] = frozenset()
    #: Became dead letters at this time or later, and before this time: RFC 3339 or ms.
    since: Milliseconds | None = None
    before: Milliseconds | None = None
    player: Id | None = None
    match_id: Id | None = None

    def filter(self) -> DeadLetterFilter:
        """The selection as a filter; raises RequestRefused for an id that no dead letter could have."""
        return DeadLetterFilter(
            ids=tuple(dict.fromkeys(map(checked_letter_id, self.ids))),
            reasons=frozenset(reason.value for reason in self.reasons),
            since=self.since,
            before=self.before,
            player=self.player,
            match_id=self.match_id,
        )


class _RequiredSelection(_Selection):
    """Selects dead letters to be changed; all of them only with `all`."""

    all: bool = False

    def filter(self) -> DeadLetterFilter:
        """The selection as a filter; raises RequestRefused when nothing is selected."""
        where = super().filter()
        if where.is_empty and not self.all:
            raise RequestRefused("ids: say which are meant: ids, filters, or all")
        return where


class ListRequest(_Selection):
    """A page of the list, or with `counts` the number of letters by reason."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    #: The last id of the page before.
    after: str | None = None
    counts: bool = False


class DeadLetterRequest(LadderRequest):
    """One dead letter."""

    id: str


class EditRequest(DeadLetterRequest):
    """An edit: values to set by path and paths to remove, or the whole message."""

    set: dict[str, Any] = {}
    unset: tuple[str, ...] = ()
    message: str | None = None
    message_base64: str | None = None
    by: _Text
    why: _Text
    #: Store it even if it is still wrong.
    force: bool = False

    def new_message(self, old: bytes) -> bytes:
        """The message after the edit; raises RequestRefused or InvalidEdit."""
        ways = [bool(self.set or self.unset), self.message is not None, self.message_base64 is not None]
        if ways.count(True) != 1:
            raise RequestRefused("set: give one of set (with unset), message and message_base64")
        try:
            if self.message_base64 is not None:
                return base64.b64decode(self.message_base64, validate=True)
            if self.message is not None:
                return self.message.encode()
        except ValueError:
            raise RequestRefused("message: it cannot be decoded") from None
        values = [(path, json.dumps(value)) for path, value in self.set.items()]
        return edited_message(old, values, self.unset)


class ReplayRequest(_RequiredSelection):
    """A replay; the fields are the options of `match-ratings dead-letters replay`."""

    dry_run: bool = False
    #: Letters a second at most.
    rate: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    include_parked: bool = False
    force_late: bool = False
    never_rated: _OptionalText = ""
    by: _OptionalText = ""
    #: Seconds without any progress after which the replay ends.
    timeout: Annotated[float, Field(gt=0, le=25)] = 20


class DiscardRequest(_RequiredSelection):
    """A discard."""

    by: _Text
    why: _Text


class ImportRequest(LadderRequest):
    """Exported letters to be restored."""

    dead_letters: Annotated[list[dict[str, Any]], Field(max_length=1000)]
