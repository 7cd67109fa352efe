"""Audits, repairs and voids while workers rate."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker.audit import DifferenceKind as Kind
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.rating import SYSTEMS, RatingSystem
from tests.support.bench import Bench
from tests.support.model import match
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quiet")


async def shorter(bench: Bench, than: int) -> bool:
    """Whether fewer messages than this wait in the inbox."""
    return bool(await bench.redis.xlen(bench.keys.inbox) < than)


async def goes_on(bench: Bench) -> None:
    """Waits until 20 events have come."""
    goal = await bench.redis.xlen(bench.keys.outbox) + 20

    async def reached() -> bool:
        return bool(await bench.redis.xlen(bench.keys.outbox) >= goal)

    await eventually(reached)


@asynccontextmanager
async def busy(url: str, ladder: str, system: RatingSystem, players: int = 40) -> AsyncIterator[Bench]:
    """Two workers that rate what is sent without an end, new players among it; finished at the end."""
    async with contextlib.AsyncExitStack() as stack:
        redis = [await stack.enter_async_context(Redis.from_url(url)) for _ in range(4)]
        bench = Bench(redis[0], ladder, system)
        intakes = [
            StreamConsumer(Bench(client, ladder, system).engine(f"worker-{n}"))
            for n, client in enumerate(redis[1:3])
        ]
        running = [asyncio.create_task(intake.run()) for intake in intakes]
        sender = Bench(redis[3], ladder, system)
        stopped, rng = asyncio.Event(), random.Random(3)

        async def send() -> None:
            number = 0
            while not stopped.is_set():
                batch = []
                for _ in range(20):
                    number += 1
                    names = rng.sample(range(players + number // 50), 2)
                    batch.append(match(f"m-{number}", (f"p{names[0]}", f"p{names[1]}"), length=3))
                    if number % 7 == 0:
                        old = batch[rng.randrange(len(batch))]
                        batch.append(bench.void(old["match_id"], *old["players"]) if "winner" in old else old)
                await sender.send(*batch)
                await eventually(partial(shorter, bench, 100))

        sending = asyncio.create_task(send())
        try:
            yield bench
        finally:
            stopped.set()
            await sending
            await eventually(partial(shorter, bench, 1))
            for intake in intakes:
                intake.stop()
            await asyncio.gather(*running)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes an audit take so many steps that a lot happens between them."""
    monkeypatch.setattr("match_ratings_worker.ledger.read_ledger._PAGE", 100)
    monkeypatch.setattr("match_ratings_worker.audit.audit_snapshots.PLAYERS_PER_CALL", 3)
    monkeypatch.setattr("match_ratings_worker.audit.repair_derived.PLAYERS_PER_CALL", 3)


@pytest.mark.parametrize("name", ["backgammon", "glicko-periods"])
async def test_what_happens_during_an_audit_is_no_difference(
    server: Endpoint, ladder: str, small_steps: None, name: str
) -> None:
    async with busy(server.url, ladder, SYSTEMS[name]()) as bench:
        seen = []
        for _ in range(3):
            await goes_on(bench)
            report = await bench.audit()
            assert not report.total, report.first
            assert report.complete
            seen.append(report.events)
        assert seen == sorted(set(seen))  # it did go on meanwhile
    assert not (await bench_audit(server, ladder, SYSTEMS[name]())).total


async def bench_audit(server: Endpoint, ladder: str, system: RatingSystem) -> Any:
    async with Redis.from_url(server.url) as redis:
        return await Bench(redis, ladder, system).audit()


async def test_a_repair_does_not_disturb_the_workers(
    server: Endpoint, ladder: str, small_steps: None
) -> None:
    async with busy(server.url, ladder, SYSTEMS["backgammon"]()) as bench:
        settled = 0
        for _ in range(2):
            await goes_on(bench)
            # Given some that is wrong
            async with bench.redis.pipeline() as pipe:
                for number in range(0, 40, 3):
                    pipe.zadd(bench.keys.leaderboard, {f"p{number}": number, f"ghost-{number}": number})
                    pipe.delete(bench.keys.games(f"p{number + 1}"))
                    pipe.zadd(bench.keys.games(f"p{number + 2}"), {"m-none": bench.now})
                await pipe.execute()
            # When it is repaired while matches are rated
            report = await bench.audit(repair=True)
            assert report.remaining == report.counts[Kind.FIGURES], report.first
            settled += report.repaired
        assert settled > 25
    # Then nothing is wrong at the end but what K was taken for games that had been missing
    report = await bench_audit(server, ladder, SYSTEMS["backgammon"]())
    assert set(report.counts) <= {Kind.FIGURES}, report.first
    assert all("recent_games" in difference.text for difference in report.first)
