"""Keeps a replay in step with the ledger, so that what is stored is compared as of one moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from match_ratings_worker.audit.compare_player import Stored
from match_ratings_worker.audit.ledger_replay import Replay
from match_ratings_worker.audit.sample_receipts import Sample
from match_ratings_worker.audit.stored_snapshot import PAGE, SnapshotReader
from match_ratings_worker.ledger.read_ledger import Event, Ledger

__all__ = ["MAX_PASSES", "Follower"]

#: How often what moves under an audit is tried again.
MAX_PASSES: Final = 20


class Follower:
    """A replay that follows its ledger while workers go on writing it."""

    def __init__(self, ledger: Ledger, books: SnapshotReader, replay: Replay, sample: Sample) -> None:
        self.ledger, self.books, self.replay, self.sample = ledger, books, replay, sample

    async def read(self, upto: str = "+") -> AsyncIterator[int]:
        """Replays the ledger up to a place; yields now and then how many events that were so far."""
        async for page in self.ledger.pages(self.replay.last, upto):
            self._feed(page)
            yield self.replay.events

    async def looks(self, names: Sequence[str]) -> AsyncIterator[list[tuple[str, Stored]]]:
        """What is stored of players, some at a time; while those are looked at, the replay is just as far."""
        for start in range(0, len(names), PAGE):
            page = list(names[start : start + PAGE])
            while page:
                since = {name: self.games_from(name) for name in page}
                look = await self.books.look(list(since.items()))
                await self.catch_up(look.newest)
                # Games may now be known from another time on than they were read for.
                same = [self.games_from(name) == since[name] for name in page]
                yield [
                    pair
                    for pair, is_same in zip(zip(page, look.stored, strict=True), same, strict=True)
                    if is_same
                ]
                page = [name for name, is_same in zip(page, same, strict=True) if not is_same]

    async def counts(self) -> dict[str, int]:
        """The counted outcomes; the replay is just as far."""
        look = await self.books.look([])
        await self.catch_up(look.newest)
        return look.counts

    async def catch_up(self, newest: str) -> None:
        """Replays up to a place."""
        if newest == self.replay.last:
            return
        async for _ in self.read(newest):
            pass

    def games_from(self, name: str) -> int:
        """From when on a player's window is to be compared, in ms."""
        track = self.replay.tracks.get(name)
        return max(self.replay.cut, track.window_from if track else 0)

    def _feed(self, page: Iterable[Event]) -> None:
        for ledger_id, raw in page:
            event = self.replay.feed(ledger_id, raw)
            if event is not None:
                self.sample.feed(ledger_id, event)
