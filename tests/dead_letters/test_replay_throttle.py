"""Thousands of dead letters replayed into running workers, with live matches coming in meanwhile."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings import RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.dead_letters import DeadLetterReplay, ReplayOptions, ReplayOutcome
from match_ratings_worker.dead_letters.dead_letter_store import DeadLetterStore
from match_ratings_worker.dead_letters.replay_throttle import RateLimiter
from tests.support.office import Office, tally
from tests.support.processes import Worker, config_file
from tests.support.waiting import PATIENCE, eventually

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


async def _is_empty(redis: Redis, stream: str) -> bool:
    return not await redis.xlen(stream)


class Live:
    """Sends live matches evenly and counts how many other messages are rated before each of them."""

    def __init__(self, office: Office, rate: float) -> None:
        self.office, self.rate = office, rate
        #: Match id -> how many events there were when it was sent.
        self.sent: dict[str, int] = {}
        self.stopping = False

    async def send(self, name: str) -> None:
        number = 0
        while not self.stopping:
            match_id = f"{name}-{number}"
            match = self.office.match(match_id, (f"live-{number % 50}", f"p{number % 400}"))
            async with self.office.redis.pipeline() as pipe:
                pipe.xlen(self.office.keys.outbox)
                pipe.xadd(self.office.keys.inbox, {FIELD: json.dumps(match)})
                self.sent[match_id] = (await pipe.execute())[0]
            number += 1
            await asyncio.sleep(1 / self.rate)

    def waited(self, events: list[RatingUpdated]) -> list[int]:
        """For each, the events that came between its sending and its own, fewest first."""
        place = {event.match_id: number for number, event in enumerate(events)}
        return sorted(place[match_id] - before for match_id, before in self.sent.items())


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
        sending = asyncio.create_task(live.send("live"))
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
        await sending
        await eventually(partial(_is_empty, redis, office.keys.inbox))
    # Then every one is rated, once, and so is every live match
    assert tally(results) == {ReplayOutcome.RATED: LETTERS}
    events = await office.events()
    assert len(events) == len({event.match_id for event in events}) == LETTERS + len(live.sent)
    # And live matches never had many before them
    waited = live.waited(events)
    assert most < 600
    assert len(waited) > 20 and waited[len(waited) // 2] < 300 and waited[-1] < 1_200
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


async def test_while_the_inbox_is_full_of_live_matches_nothing_is_moved(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an inbox that no worker empties fast enough
    await fill(office, 20)
    await office.send(*[office.match(f"live-{number}") for number in range(40)])
    engine = office.engine("slow")
    await engine.store.join_group()
    await engine.claim_new()
    move, moved = DeadLetterStore.move_to_inbox, list[list[str]]()

    async def counted(*arguments: Any, **options: Any) -> list[str]:
        moved.append(await move(*arguments, **options))
        return moved[-1]

    monkeypatch.setattr(DeadLetterStore, "move_to_inbox", counted)
    task = asyncio.create_task(office.results(inbox_limit=30, timeout=PATIENCE))
    # When a replay runs and tries again and again, then it waits
    await eventually(lambda: len(moved) >= 5)
    assert not any(moved) and await office.letters.count() == 20
    # And when the worker gets on, then it does too
    while not task.done():
        await engine.settle()
        await engine.claim_new()
        await asyncio.sleep(0)
    assert tally(await task) == {ReplayOutcome.RATED: 20}
    order = [event.match_id or "" for event in await office.events()]
    assert all(match_id.startswith("live") for match_id in order[:11])


@pytest.mark.parametrize("room", [1, 3])
async def test_a_small_room_is_room_enough(office: Office, room: int) -> None:
    await fill(office, 30)
    assert tally(await office.replay(inbox_limit=room)) == {ReplayOutcome.RATED: 30}


def test_a_rate_is_kept_to_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("match_ratings_worker.dead_letters.replay_throttle.time.monotonic", lambda: now)
    limiter, went = RateLimiter(100.0), []
    for _ in range(2_000):  # two seconds
        went.append(limiter.allowed(1_000))
        limiter.record_moved(went[-1])
        now += 0.001
    assert 198 <= sum(went) <= 200 and max(went) == 1
    # What could not go for a while is caught up on for a tenth of a second, no more.
    now += 10
    assert limiter.allowed(1_000) in (9, 10)
