"""A ladder on a real server with one engine in this process: send, rate, close, look at what is stored."""

from __future__ import annotations

import json
import uuid
from typing import Any

from match_ratings.stream_names import FIELD
from match_ratings_worker.pipeline.close_due_periods import ClosedPeriod, PeriodCloser
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import RatingSystem, State
from tests.support.clock import month_start, now_ms
from tests.support.ladder_harness import LadderHarness

__all__ = ["HORIZON", "Rounds", "month_start", "now_ms"]

#: Long enough for the months that the tests of periods look back.
HORIZON = 365 * 86_400_000


class Rounds(LadderHarness):
    """A ladder with one worker, and messages that came in at any time."""

    horizon = HORIZON

    def __init__(self, redis: Any, ladder: str, system: RatingSystem) -> None:
        super().__init__(redis, ladder, system)
        self.worker = self.new_engine()

    def new_engine(self) -> BatchProcessor:
        """Another worker of the ladder."""
        return self.engine(f"test-{uuid.uuid4().hex[:8]}")

    async def send_at(self, came: int | None, message: dict[str, Any]) -> str:
        """Puts a message into the inbox, as if it came in at a time in ms; returns its id."""
        raw = json.dumps({"ladder": self.ladder, **message})
        found: bytes = await self.redis.xadd(
            self.keys.inbox, {FIELD: raw}, id="*" if came is None else f"{came}-*"
        )
        return found.decode()

    async def play(
        self,
        match_id: str,
        players: tuple[str, str],
        score: float = 1.0,
        *,
        at: int | None = None,
        **other: Any,
    ) -> str:
        """Sends a match that finished, and came in, at a time in ms; `came` may say otherwise."""
        at = now_ms() - 1000 if at is None else at
        came = other.pop("came", at)
        winner = {1.0: players[0], 0.0: players[1]}.get(score)
        match = {"match_id": match_id, "players": players, "winner": winner, "finished_at": at}
        return await self.send_at(came, {**match, **other})

    async def rate(self, engine: BatchProcessor | None = None) -> None:
        """Rates what is in the inbox."""
        engine = engine or self.worker
        await engine.store.join_group()
        await engine.store.ensure_adopted()
        await engine.claim_stale()
        while await engine.claim_new() or engine.waiting:
            await engine.settle()
            await engine.drain()

    async def close(self, **options: Any) -> list[ClosedPeriod]:
        """Closes periods as the job does."""
        found = []
        async for closed in PeriodCloser(self.store, **options).run():
            found += closed
        return found

    async def state(self, player: str) -> State:
        """A player as stored; fails where the stored state cannot be read."""
        found = (await self.store.read_players([player]))[player]
        assert found.fault is None, found.fault
        return found.state

    async def listed(self) -> dict[str, float]:
        """The leaderboard."""
        return {
            name.decode(): score
            for name, score in await self.redis.zrange(self.keys.leaderboard, 0, -1, withscores=True)
        }
