"""What a server may ask for by the dead-letters jobs, as pydantic models; unknown fields are refused."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from match_ratings import Reason
from match_ratings.messages import Id, Milliseconds
from match_ratings_worker.dead_letters.edit_message import assigned
from match_ratings_worker.dead_letters.letter_filter import Filter
from match_ratings_worker.storage.stream_ids import is_stream_id
from match_ratings_worker.text import quote

__all__ = [
    "Discard",
    "Edit",
    "Import",
    "Listing",
    "One",
    "Refused",
    "ReplayRequest",
    "Request",
    "Selection",
    "Some",
    "checked_letter",
]

#: Who, or why, for the record.
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class Refused(Exception):
    """What was asked for cannot be done; the text is one sentence."""


def checked_letter(letter_id: str) -> str:
    """The same id; raises Refused when no dead letter could have it."""
    if not is_stream_id(letter_id):
        raise Refused(f"id: {quote(letter_id)} is not allowed; use one such as 1700000000000-0")
    return letter_id


class Request(BaseModel):
    """What every request may have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Needed where several ladders are configured.
    ladder: str | None = None


class Selection(Request):
    """Which dead letters are meant; with nothing given all of them."""

    ids: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    reasons: frozenset[Reason] = frozenset()
    #: Died at this time or later, and before this time: RFC 3339 or ms.
    since: Milliseconds | None = None
    before: Milliseconds | None = None
    player: Id | None = None
    match_id: Id | None = None

    def filter(self) -> Filter:
        """The same for the letters."""
        for letter_id in self.ids:
            checked_letter(letter_id)
        reasons = frozenset(reason.value for reason in self.reasons)
        return Filter(
            tuple(dict.fromkeys(self.ids)), reasons, self.since, self.before, self.player, self.match_id
        )


class Some(Selection):
    """Which dead letters are to be changed; all of them only when that is said."""

    all: bool = False

    def filter(self) -> Filter:
        """The same for the letters; raises Refused when nothing says which."""
        where = super().filter()
        if where.all and not self.all:
            raise Refused("ids: say which are meant: ids, filters, or all")
        return where


class Listing(Selection):
    """A page of the list; `counts`: only how many have each reason."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    after: str | None = None
    counts: bool = False


class One(Request):
    """One dead letter."""

    id: str


class Edit(One):
    """An edit: values to set by path and paths to take out, or the whole message."""

    set: dict[str, Any] = {}
    unset: tuple[str, ...] = ()
    message: str | None = None
    message_base64: str | None = None
    who: Words
    why: Words
    #: Keep it also if it is still wrong.
    anyway: bool = False

    def new_message(self, old: bytes) -> bytes:
        """The message after the edit; raises Refused or NotAllowed."""
        ways = [bool(self.set or self.unset), self.message is not None, self.message_base64 is not None]
        if ways.count(True) != 1:
            raise Refused("set: give one of set (with unset), message and message_base64")
        try:
            if self.message_base64 is not None:
                return base64.b64decode(self.message_base64, validate=True)
            if self.message is not None:
                return self.message.encode()
        except ValueError:
            raise Refused("message: it cannot be decoded") from None
        return assigned(old, [(path, json.dumps(value)) for path, value in self.set.items()], self.unset)


class ReplayRequest(Some):
    """A replay; as the options of the command."""

    dry_run: bool = False
    rate: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    include_parked: bool = False
    force_late: bool = False
    never_rated: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    who: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    #: Give up when for so many seconds nothing moves.
    patience: Annotated[float, Field(gt=0, le=25)] = 20


class Discard(Some):
    """A discard."""

    who: Words
    why: Words


class Import(Request):
    """Exported letters to be put back."""

    dead_letters: Annotated[list[dict[str, Any]], Field(max_length=1000)]
