"""What the tests of voids and audits share: a ladder on a server, messages, and engines that rate them."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis

from match_ratings.stream_names import FIELD
from match_ratings_worker.audit import AuditReport, audit_ladder
from match_ratings_worker.ledger import Archive, Ledger
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import RatingSystem
from tests.support.clock import DAY
from tests.support.ladder_harness import LadderHarness
from tests.support.model import match, tournament

#: Long enough for rating periods of a month to end in it.
HORIZON = 80 * DAY


class Bench(LadderHarness):
    """A ladder and the tools to work on it."""

    #: Long enough for rating periods of a month to end in it.
    horizon = HORIZON

    def void(self, match_id: str, *players: str, **other: Any) -> dict[str, Any]:
        """A message that takes a match back."""
        names = list(players or ("ada", "bob"))
        return {"type": "match-voided", "match_id": match_id, "players": names, "why": "a test", **other}

    async def work(self, workers: int = 1, **limits: Any) -> None:
        """Rates all that is in the inbox, by so many engines side by side."""
        engines = [self.engine(f"engine-{number}", **limits) for number in range(workers)]
        await engines[0].store.join_group()
        await engines[0].store.ensure_adopted()
        await asyncio.gather(*(self._finish(engine) for engine in engines))

    async def _finish(self, engine: BatchProcessor) -> None:
        for _ in range(100_000):
            came = await engine.claim_new()
            done = await engine.settle() + await engine.drain()
            if not came and not done and not await self.redis.xlen(self.keys.inbox):
                return
            for entry in engine.waiting.values():
                entry.retry_at = 0
            if not done:
                await asyncio.sleep(0.001)
        raise AssertionError("not finished")

    async def rate(self, *messages: dict[str, Any], workers: int = 1, **limits: Any) -> list[str]:
        """Sends messages and rates them; returns their ids."""
        ids = await self.send(*messages)
        await self.work(workers, **limits)
        return ids

    async def ledger(self) -> list[tuple[str, dict[str, Any]]]:
        """The events as they are, to be tampered with."""
        entries = await self.redis.xrange(self.keys.outbox)
        return [(entry_id.decode(), json.loads(fields[b"message"])) for entry_id, fields in entries]

    async def rewrite(self, ledger: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Puts other events in the place of the ledger's."""
        await self.redis.delete(self.keys.outbox)
        async with self.redis.pipeline(transaction=False) as pipe:
            for entry_id, event in ledger:
                pipe.xadd(self.keys.outbox, {FIELD: json.dumps(event)}, id=entry_id)
            await pipe.execute()

    async def player(self, name: str) -> dict[str, str]:
        stored = await self.redis.hgetall(self.keys.player(name))
        return {field.decode(): value.decode() for field, value in stored.items()}

    async def games(self, name: str) -> dict[str, int]:
        stored = await self.redis.zrange(self.keys.games(name), 0, -1, withscores=True)
        return {game.decode(): int(at) for game, at in stored}

    async def picture(self) -> dict[str, Any]:
        """All that must not depend on who rated what when."""
        found: dict[str, Any] = {"counts": await self.counts()}
        scope = self.keys.player_.removesuffix("player:")
        async for key in self.redis.scan_iter(match=f"{scope}*", count=1000):
            kind = key.decode().removeprefix(scope)
            if kind.startswith("player:"):
                is_hash = await self.redis.type(key) == b"hash"
                found[kind] = await (self.redis.hgetall(key) if is_hash else self.redis.get(key))
            elif kind.startswith("games:") or kind in ("leaderboard", "open"):
                found[kind] = await self.redis.zrange(key, 0, -1, withscores=True)
        for event in await self.events():
            told = event.model_dump(exclude={"rated_at", "id"})
            for part in event.players:
                found.setdefault(f"events of {part.player}", []).append(told)
        return found

    async def audit(self, *, repair: bool = False, archive: Archive | None = None) -> AuditReport:
        return await audit_ladder(Ledger(self.handle, archive), repair=repair)

    def traffic(self, rng: random.Random, size: int, players: int = 6) -> list[dict[str, Any]]:
        """Messages as they come: matches of every kind, some sent twice, tournaments, some taken back."""
        names = [f"p{number}" for number in range(players)]
        sent: list[dict[str, Any]] = []
        for number in range(size):
            first, second = rng.sample(names, 2)
            kind = rng.random()
            at = self.now - rng.randrange(HORIZON - DAY) if kind < 0.3 else self.now - (size - number) * 1000
            if kind < 0.8 or not sent:
                winner = rng.choice([first, first, second, None]) if self.system.draws else first
                message = match(f"m-{number}", (first, second), winner=winner, cube=rng.choice([1, 1, 2, 64]))
                message["length"] = rng.choice([1, 5, 9, None])
                message["mode"] = rng.choice(["ranked"] * 9 + ["boosted"])
                sent.append({**message, "finished_at": at})
            elif kind < 0.86:
                podium = tuple(rng.sample(names, rng.randint(1, 3)))
                sent.append(tournament(f"t-{number}", podium, public=rng.random() < 0.8, finished_at=at))
            elif kind < 0.92:
                sent.append(rng.choice(sent))
            else:
                taken = rng.choice([old for old in sent if "winner" in old])
                sent.append(self.void(taken["match_id"], *taken["players"], finished_at=self.now))
        return sent


@contextmanager
def working(url: str, ladder: str, system: RatingSystem) -> Iterator[None]:
    """A worker in a thread of its own."""
    ready, intakes = threading.Event(), list[tuple[StreamConsumer, asyncio.AbstractEventLoop]]()

    async def run() -> None:
        async with Redis.from_url(url) as redis:
            intake = StreamConsumer(Bench(redis, ladder, system).engine("threaded"))
            intakes.append((intake, asyncio.get_running_loop()))
            ready.set()
            await intake.run()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        intake, loop = intakes[0]
        loop.call_soon_threadsafe(intake.stop)
        thread.join()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keeps what the workers log away from the output of commands."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def bench(redis: Redis, ladder: str) -> Bench:
    return Bench(redis, ladder)
