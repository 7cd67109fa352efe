"""Reads a ledger from its first event to its last: what was archived, then what Redis keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from redis.asyncio import Redis

from match_ratings.stream_names import FIELD
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.stream_ids import parse_stream_id

__all__ = ["Archive", "Event", "Ledger", "LedgerTrimmed"]

#: An event: its place in the ledger, and its JSON.
Event = tuple[str, bytes]
#: Gives the archived events after a place of the ledger ("0-0" for all), oldest first.
Archive = Callable[[str], Iterable[Event]]

#: Events that are read in one step.
_PAGE: Final = 1000
_FIELD: Final = FIELD.encode()


class LedgerTrimmed(Exception):
    """Events were trimmed before they had been read."""


class Ledger:
    """A ladder's ledger."""

    def __init__(self, redis: Redis, keys: Keys, archive: Archive | None = None) -> None:
        self._redis, self._outbox, self._archive = redis, keys.outbox, archive

    async def size(self) -> int:
        """How many events Redis keeps."""
        return int(await self._redis.xlen(self._outbox))

    async def about(self) -> tuple[bool, str]:
        """Whether nothing was ever taken from the stream; and the last event that was deleted by hand.

        Trimming does not count as that, and "" stands for none.
        """
        if not await self._redis.exists(self._outbox):
            return True, ""
        info = await self._redis.xinfo_stream(self._outbox)
        deleted = info.get("max-deleted-entry-id", b"0-0").decode()
        untouched = info.get("entries-added") == info["length"]
        return untouched, "" if deleted == "0-0" else deleted

    async def pages(self, after: str, upto: str = "+") -> AsyncIterator[list[Event]]:
        """The events after one place up to another, which is included; raises Overtaken.

        Events may be archived and trimmed meanwhile: none is left out.
        """
        last = after
        for page in self._archived(last, upto):
            yield page
            last = page[-1][0]
        started = last
        while True:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.xrange(self._outbox, f"({last}", upto, count=_PAGE)
                pipe.xrange(self._outbox, "-", "+", count=1)
                found, first = await pipe.execute()
            if first and parse_stream_id(first[0][0].decode()) > parse_stream_id(last):
                # What came next may have been trimmed before it was read; it is in the archive then.
                missed = False
                for page in self._archived(last, upto):
                    yield page
                    last, missed = page[-1][0], True
                if missed:
                    continue
                if self._archive is None and last != started:
                    raise LedgerTrimmed
            if not found:
                return
            page = [(entry_id.decode(), fields.get(_FIELD, b"")) for entry_id, fields in found]
            yield page
            last = page[-1][0]
            if len(page) < _PAGE:
                return

    def _archived(self, after: str, upto: str) -> Iterator[list[Event]]:
        if self._archive is None:
            return
        end = None if upto == "+" else parse_stream_id(upto)
        events = iter(self._archive(after))
        while page := list(islice(events, _PAGE)):
            if end is not None and parse_stream_id(page[-1][0]) > end:
                page = [event for event in page if parse_stream_id(event[0]) <= end]
                if page:
                    yield page
                return
            yield page
