"""Reads a ladder's events: what the archive holds, then what Redis keeps, as one ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from pydantic import ValidationError

from match_ratings import RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.storage import LadderHandle, Unreadable, as_json, entries, parse_stream_id

from .sqlite_archive import Archive, StoredEvent

#: Events read in one step.
_PAGE: Final = 1000
_FIELD: Final = FIELD.encode()


class LedgerTrimmed(Exception):
    """Raised when events were trimmed before they had been read."""


def parse_event(ledger_id: str, raw: bytes) -> RatingUpdated | None:
    """An event with its id; None when the JSON is not a rating-updated event."""
    try:
        return RatingUpdated.model_validate_json(raw).model_copy(update={"id": ledger_id})
    except ValidationError:
        return None


@contextmanager
def open_ledger(ladder: LadderHandle) -> Iterator[Ledger]:
    """The ledger with the handle's archive, which is closed at the end; a shadow has none.

    Raises ArchiveError, here and when reading.
    """
    if ladder.shadow or ladder.archive is None or not ladder.archive.exists():
        yield Ledger(ladder)
        return
    with Archive(ladder.archive) as archive:
        yield Ledger(ladder, archive)


class Ledger:
    """The events of one ladder. Methods raise redis.exceptions.RedisError and ArchiveError."""

    def __init__(self, ladder: LadderHandle, archive: Archive | None = None) -> None:
        self.ladder, self.archive = ladder, archive
        self._redis, self._outbox = ladder.redis, ladder.keys.outbox

    async def size(self) -> int:
        """Number of events in Redis."""
        return int(await self._redis.xlen(self._outbox))

    async def deletions(self) -> tuple[bool, str]:
        """Whether Redis still has every event ever added, and the last one deleted by hand, "" for none.

        Trimming removes events but does not count as deletion by hand.
        """
        if not await self._redis.exists(self._outbox):
            return True, ""
        info = await self._redis.xinfo_stream(self._outbox)
        deleted = info.get("max-deleted-entry-id", b"0-0").decode()
        untouched = info.get("entries-added") == info["length"]
        return untouched, "" if deleted == "0-0" else deleted

    async def pages(self, after: str = "0-0", upto: str = "+") -> AsyncIterator[list[StoredEvent]]:
        """The events after one id up to and including another, oldest first.

        Events may be archived and trimmed at the same time: none is skipped. Raises LedgerTrimmed when
        there is no archive to find them in.
        """
        last = after
        for page in self._archived_pages(last, upto):
            yield page
            last = page[-1][0]
        started = last
        while True:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.xrange(self._outbox, f"({last}", upto, count=_PAGE)
                pipe.xrange(self._outbox, "-", "+", count=1)
                found, first = await pipe.execute()
            if first and parse_stream_id(first[0][0].decode()) > parse_stream_id(last):
                # The next events may have been trimmed before they were read; then they are in the archive.
                missed = False
                for page in self._archived_pages(last, upto):
                    yield page
                    last, missed = page[-1][0], True
                if missed:
                    continue
                if self.archive is None and last != started:
                    raise LedgerTrimmed
            if not found:
                return
            page = [(entry_id.decode(), fields.get(_FIELD, b"")) for entry_id, fields in found]
            yield page
            last = page[-1][0]
            if len(page) < _PAGE:
                return

    def _archived_pages(self, after: str, upto: str) -> Iterator[list[StoredEvent]]:
        if self.archive is None:
            return
        end = None if upto == "+" else parse_stream_id(upto)
        events = self.archive.iterate(self.ladder.name, after)
        while page := list(islice(events, _PAGE)):
            if end is not None and parse_stream_id(page[-1][0]) > end:
                page = [event for event in page if parse_stream_id(event[0]) <= end]
                if page:
                    yield page
                return
            yield page

    async def event_at(self, ledger_id: str) -> RatingUpdated | None:
        """The event with an id; None when it is no longer kept.

        Raises Unreadable for an entry in Redis that is not an event.
        """
        found = await self._redis.xrange(self._outbox, ledger_id, ledger_id)
        if found:
            event = parse_event(ledger_id, found[0][1].get(_FIELD, b""))
            if event is None:
                msg = f"the entry {ledger_id} of {self._outbox} is not a rating-updated event"
                raise Unreadable(msg)
            return event
        raw = self.archive.at(self.ladder.name, ledger_id) if self.archive else None
        return None if raw is None else parse_event(ledger_id, raw)

    async def events_mentioning(
        self, text: str, oldest: str = "-", newest: str = "+"
    ) -> AsyncIterator[RatingUpdated]:
        """The events in Redis with this text as a value of any field, newest first."""
        needles = as_json(text)
        stream = entries(self._redis, self._outbox, oldest=oldest, newest=newest, reverse=True)
        async for ledger_id, fields in stream:
            raw = fields.get(_FIELD, b"")
            if any(needle in raw for needle in needles) and (event := parse_event(ledger_id, raw)):
                yield event

    def archived_events_of(self, effect_id: str) -> list[RatingUpdated]:
        """The archived events of a match or tournament, oldest first."""
        found = self.archive.find(self.ladder.name, effect_id) if self.archive else ()
        return [event for event in (parse_event(*item) for item in found) if event]

    def archived_events_of_player(self, player: str, before: str | None) -> Iterator[RatingUpdated]:
        """A player's archived events, newest first; with `before` only those before that id."""
        if self.archive is not None:
            found = self.archive.of_player(self.ladder.name, player, before)
            yield from (event for event in (parse_event(*item) for item in found) if event)

    async def events_before(self, event: RatingUpdated, player: str) -> AsyncIterator[RatingUpdated]:
        """The events before one that mention a player, newest first, the archived ones too."""
        last = event.id or "0-0"
        async for item in self.events_mentioning(player, newest=f"({last}"):
            yield item
            last = item.id or last
        for item in self.archived_events_of_player(player, last):
            yield item
