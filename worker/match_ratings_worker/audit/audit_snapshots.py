"""Reads stored players as of one moment, and advances the replay of the ledger to the same moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from match_ratings_worker.ledger import Ledger
from match_ratings_worker.storage import PLAYERS_PER_CALL, SnapshotReader, StoredPlayer

from .check_receipts import ReceiptSample
from .ledger_replay import LedgerReplay

#: How often players that change during the audit are read again.
MAX_PASSES: Final = 20


class ConsistentSnapshots:
    """A replay that stays in step with a ledger while workers write to it."""

    def __init__(self, ledger: Ledger, replay: LedgerReplay, sample: ReceiptSample) -> None:
        self.ledger, self.replay, self._sample = ledger, replay, sample
        self.reader = SnapshotReader(ledger.ladder, replay.history.current)

    async def replay_to(self, upto: str = "+") -> AsyncIterator[int]:
        """Replays the ledger up to an id; yields after each page the number of events so far."""
        if upto == self.replay.last:
            return
        async for page in self.ledger.pages(self.replay.last, upto):
            for ledger_id, raw in page:
                event = self.replay.feed(ledger_id, raw)
                if event is not None:
                    self._sample.feed(ledger_id, event)
            yield self.replay.events

    async def players(self, names: Sequence[str]) -> AsyncIterator[list[tuple[str, StoredPlayer]]]:
        """Yields stored players in pages, each with the replay advanced to the same ledger id."""
        for start in range(0, len(names), PLAYERS_PER_CALL):
            page = list(names[start : start + PLAYERS_PER_CALL])
            while page:
                since = {name: self.games_from(name) for name in page}
                snapshot = await self.reader.read(list(since.items()))
                await self._catch_up(snapshot.ledger_id)
                # An import may have changed the time from which on a player's games are known.
                stored = dict(zip(page, snapshot.players, strict=True))
                changed = {name for name in page if self.games_from(name) != since[name]}
                yield [(name, player) for name, player in stored.items() if name not in changed]
                page = [name for name in page if name in changed]

    async def counts(self) -> dict[str, int]:
        """The counted outcomes, with the replay advanced to the same ledger id."""
        snapshot = await self.reader.read([])
        await self._catch_up(snapshot.ledger_id)
        return snapshot.counts

    def games_from(self, name: str) -> int:
        """The time in ms from which on a player's window can be compared."""
        expected = self.replay.players.get(name)
        return max(self.replay.compare_from, expected.window_from if expected else 0)

    async def _catch_up(self, ledger_id: str) -> None:
        async for _ in self.replay_to(ledger_id):
            pass
