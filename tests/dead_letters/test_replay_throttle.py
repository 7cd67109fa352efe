"""Thousands of dead letters replayed into running workers, with live matches coming in meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings import RatingUpdated
from match_ratings_worker.dead_letters import DeadLetterReplay, ReplayOptions, ReplayOutcome
from tests.support.office import Office, tally
from tests.support.processes import Worker, config_file

LETTERS, LIVE = 5_000, 100


async def fill(office: Office, count: int) -> None:
    async with office.redis.pipeline(transaction=False) as pipe:
        for number in range(count):
            match = office.match(f"dead-{number}", (f"p{number % 400}", f"p{400 + number % 399}"))
            seen = office.now - 10**6 + number // 7
            fields: dict[Any, Any] = {"message": json.dumps(match), "reason": "failed", "attempts": 1}
            pipe.xadd(
                office.keys.dead_letters,
                {**fields, "source_id": f"{seen}-{number % 7}", "first_seen": seen, "dead_at": office.now},
            )
        await pipe.execute()


class Live:
    """Sends live matches evenly and measures how long each takes until its event is there, in s."""

    def __init__(self, office: Office, rate: float) -> None:
        self.office, self.rate = office, rate
        self.sent: dict[str, float] = {}
        self.took: list[float] = []
        self.stopping = False

    async def send(self, name: str) -> None:
        number = 0
        while not self.stopping:
            match_id = f"{name}-{number}"
            self.sent[match_id] = time.monotonic()
            await self.office.send(self.office.match(match_id, (f"live-{number % 50}", f"p{number % 400}")))
            number += 1
            await asyncio.sleep(1 / self.rate)

    async def watch(self, url: str) -> None:
        last = "$"
        async with Redis.from_url(url) as redis:
            while not self.stopping or self.sent:
                reply: Any = await redis.xread({self.office.keys.outbox: last}, count=1000, block=1000)
                now = time.monotonic()
                for entry_id, fields in reply[0][1] if reply else ():
                    last = entry_id
                    event = RatingUpdated.model_validate_json(fields[b"message"])
                    begun = self.sent.pop(event.match_id or "", None)
                    if begun is not None:
                        self.took.append(now - begun)

    def median(self) -> float:
        return sorted(self.took)[len(self.took) // 2]


@pytest.mark.slow
async def test_live_matches_are_not_starved(
    server: Endpoint, redis: Redis, ladder: str, tmp_path: Path
) -> None:
    # Given thousands of dead letters, two workers, and live matches
    office = Office(redis, ladder)
    await fill(office, LETTERS)
    config = config_file(tmp_path / "ladders.toml", ladder)
    most = 0
    with (
        Worker.running(server.url, config, tmp_path / "one.log"),
        Worker.running(server.url, config, tmp_path / "two.log"),
    ):
        live = Live(office, LIVE)
        beside = [asyncio.create_task(live.send("live")), asyncio.create_task(live.watch(server.url))]
        # When all of them are replayed
        before = psutil.Process().memory_info().rss
        replay = DeadLetterReplay(office.handle, ReplayOptions())
        results = []
        async for result in replay.results():
            results.append(result)
            if len(results) % 100 == 0:
                most = max(most, await redis.xlen(office.keys.inbox))
        grown = psutil.Process().memory_info().rss - before
        live.stopping = True
        await asyncio.wait_for(asyncio.gather(*beside), 20)
    # Then every one is rated, once, and so is every live match
    assert tally(results) == {ReplayOutcome.RATED: LETTERS}
    events = await office.events()
    assert len(events) == len({event.match_id for event in events}) == LETTERS + len(live.took)
    # And live matches never had many before them, nor waited long
    assert most < 600
    assert len(live.took) > 20 and live.median() < 0.5 and max(live.took) < 5
    # And of each player the replayed ones were rated in the order in which they were sent
    for player in (f"p{number}" for number in range(0, 799, 37)):
        own = [
            int(event.match_id.removeprefix("dead-"))
            for event in events
            if event.match_id
            and event.match_id.startswith("dead-")
            and player in (event.players[0].player, event.players[1].player)
        ]
        assert len(own) > 5 and own == sorted(own)
    assert grown < 50_000_000


async def test_while_the_inbox_is_full_of_live_matches_nothing_is_moved(office: Office) -> None:
    # Given an inbox that no worker empties fast enough
    await fill(office, 20)
    await office.send(*[office.match(f"live-{number}") for number in range(40)])
    engine = office.engine("slow")
    await engine.store.join_group()
    await engine.claim_new()
    task = asyncio.create_task(office.results(inbox_limit=30, timeout=5.0))
    # When a replay runs, then it waits
    for _ in range(5):
        await asyncio.sleep(0.02)
        assert await office.letters.count() == 20
    # And when the worker gets on, then it does too
    while not task.done():
        await engine.settle()
        await engine.claim_new()
        await asyncio.sleep(0.001)
    assert tally(await task) == {ReplayOutcome.RATED: 20}
    order = [event.match_id or "" for event in await office.events()]
    assert all(match_id.startswith("live") for match_id in order[:11])


@pytest.mark.parametrize("room", [1, 3])
async def test_a_small_room_is_room_enough(office: Office, room: int) -> None:
    await fill(office, 30)
    assert tally(await office.replay(inbox_limit=room)) == {ReplayOutcome.RATED: 30}
