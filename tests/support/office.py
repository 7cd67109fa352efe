"""What the tests of dead letters share: a ladder, ways to fill and empty it, and workers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from match_ratings_worker.dead_letters import (
    DeadLetterFilter,
    DeadLetterReplay,
    DeadLetterStore,
    ReplayOptions,
    ReplayOutcome,
    ReplayResult,
)
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.dead_letter_format import DeadLetterEntry
from tests.support.clock import DAY
from tests.support.ladder_harness import Json, LadderHarness
from tests.support.waiting import eventually

HORIZON = 14 * DAY


class Office(LadderHarness):
    """A ladder with its dead letters; what is sent is sent as it is."""

    idle = 30_000

    def __init__(self, redis: Redis, ladder: str, system: RatingSystem | None = None) -> None:
        super().__init__(redis, ladder, system)
        self.letters = DeadLetterStore(self.handle)

    def match(self, match_id: str, players: tuple[str, str] = ("ada", "bob"), **other: Any) -> dict[str, Any]:
        """A match that the first player won a minute ago."""
        match = {"match_id": match_id, "ladder": self.ladder, "players": list(players), "winner": players[0]}
        return {**match, "finished_at": self.now - 60_000, **other}

    def encode(self, message: Json) -> bytes:
        return json.dumps(message).encode()

    async def bury(self, *messages: dict[str, Any] | bytes, **fields: Any) -> list[str]:
        """Puts messages straight among the dead letters, one ms after another; returns their ids."""
        ids = []
        for number, message in enumerate(messages):
            raw = message if isinstance(message, bytes) else self.encode(message)
            seen = self.now - 100_000 + number
            letter: dict[Any, Any] = {
                "message": raw,
                "reason": "failed",
                "detail": "it failed 10 times",
                "source_id": f"{seen}-0",
                "attempts": 3,
                "first_seen": seen,
                "dead_at": self.now - 50_000,
                **fields,
            }
            ids.append((await self.redis.xadd(self.keys.dead_letters, letter)).decode())
        return ids

    async def work(self) -> None:
        """Rates all that is in the inbox."""
        engine = self.engine("test")
        await engine.store.join_group()
        while await engine.claim_new() or engine.waiting:
            await engine.settle()
        await engine.shut_down()

    async def die(self, *messages: dict[str, Any] | bytes) -> list[DeadLetterEntry]:
        """Sends messages and has them rated; returns all dead letters, oldest first."""
        await self.send(*messages)
        await self.work()
        return await self.dead_letters()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[StreamConsumer]:
        """A worker that runs meanwhile."""
        intake = StreamConsumer(self.engine("worker"))
        task = asyncio.create_task(intake.run())
        try:
            await eventually(lambda: self.letters.has_worker())
            yield intake
        finally:
            intake.stop()
            await task

    async def replay(
        self, *ids: str, where: DeadLetterFilter | None = None, name: str | None = None, **order: Any
    ) -> list[ReplayResult]:
        """Replays with a worker at work."""
        async with self.worker():
            return await self.results(*ids, where=where, name=name, **order)

    async def results(
        self,
        *ids: str,
        where: DeadLetterFilter | None = None,
        name: str | None = None,
        dry: bool = False,
        **order: Any,
    ) -> list[ReplayResult]:
        """Replays with whoever is at work."""
        replay = DeadLetterReplay(
            self.handle, ReplayOptions(where or DeadLetterFilter(ids=ids), **order), name
        )
        results = replay.dry_run() if dry else replay.results()
        found = [result async for result in results]
        assert replay.total == len(found)
        return found


def outcomes(results: Iterable[ReplayResult]) -> list[str]:
    return [result.outcome.value for result in results]


def tally(results: Iterable[ReplayResult]) -> dict[ReplayOutcome, int]:
    return dict(Counter(result.outcome for result in results))


@pytest.fixture
def office(client: Redis, ladder: str) -> Office:
    """A ladder on either server."""
    return Office(client, ladder)


@pytest.fixture
def real(redis: Redis, ladder: str) -> Office:
    """A ladder on the real server."""
    return Office(redis, ladder)
