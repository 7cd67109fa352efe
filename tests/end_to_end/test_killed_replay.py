"""A replay that is killed at any point: every message is in one place, and rated once at most."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded import Endpoint
from match_ratings.stream_names import FIELD
from match_ratings_worker.dead_letters import DeadLetterFilter, DeadLetterReplay, ReplayOptions
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.ladder_handle import LadderHandle
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import now_ms
from tests.support.office import HORIZON
from tests.support.processes import Worker, command, config_file
from tests.support.waiting import until

#: Dead letters, and how many of them a replay cannot rate.
LETTERS, WRONG = 1500, 300


def fill(redis: Any, keys: Keys, ladder: str) -> None:
    """Dead letters, every fifth of which is wrong for good."""
    now = now_ms()
    with redis.pipeline(transaction=False) as pipe:
        for number in range(LETTERS):
            players = [f"p{number % 97}", f"q{number % 89}"]
            message: dict[str, Any] = {
                "match_id": f"m-{number}",
                "ladder": ladder,
                "players": players,
                "winner": players[0],
            }
            message |= {"finished_at": now - 60_000, "cube": 3 if number % 5 == 0 else 2}
            fields: dict[str, Any] = {"message": json.dumps(message), "reason": "failed", "attempts": 1}
            pipe.xadd(keys.dead_letters, {**fields, "source_id": f"{now}-{number}", "first_seen": now})
        pipe.execute()


def places(redis: Any, keys: Keys) -> Counter[str]:
    """Match id -> in how many places it is: the inbox, the dead letters, or the ledger. Read in one step."""
    with redis.pipeline(transaction=True) as pipe:
        for stream in (keys.inbox, keys.dead_letters, keys.outbox):
            pipe.xrange(stream)
        found = pipe.execute()
    return Counter(json.loads(fields[FIELD.encode()])["match_id"] for stream in found for _, fields in stream)


def once(redis: Any, keys: Keys) -> None:
    """Asserts that every message is in exactly one place."""
    found = places(redis, keys)
    assert len(found) == LETTERS and set(found.values()) == {1}


@contextmanager
def replaying(url: str, ladder: str) -> Iterator[int]:
    """A process that replays all that failed, as the command does; killed at the end."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(_replay(url, ladder))
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def _replay(url: str, ladder: str) -> None:
    async with connect(url) as redis:
        handle = LadderHandle(redis, ladder, Backgammon(), horizon_ms=HORIZON, idle_ms=30_000)
        order = ReplayOptions(DeadLetterFilter(reasons=frozenset({"failed"})), rate=1500)
        async for _ in DeadLetterReplay(handle, order).results():
            pass


@pytest.mark.slow
def test_a_replay_may_be_killed_at_any_point(server: Endpoint, ladder: str, tmp_path: Path) -> None:
    # Given dead letters and a worker
    rng, keys = random.Random(1), Keys(ladder)
    config = config_file(tmp_path / "ladders.toml", ladder)
    with server.client() as redis, Worker.running(server.url, config, tmp_path / "w.log"):
        fill(redis, keys, ladder)
        # When replays of them are killed one after another, some of them before they have begun to move
        for _ in range(20):
            before = redis.xlen(keys.dead_letters)
            with replaying(server.url, ladder):
                gone = before - rng.choice([0, 1, rng.randrange(2, 40)])
                until(lambda: redis.xlen(keys.dead_letters) <= gone, pause=0)  # noqa: B023
            # Then at once, and whenever one looks, each message is in one place
            once(redis, keys)
        assert 0 < redis.xlen(keys.outbox) < LETTERS - WRONG
        # And the next replay does the rest
        ended = command(
            "dead-letters", "replay", "--reason", "failed", "--json", url=server.url, config=config
        )
        assert ended.returncode == 0
        until(lambda: not redis.xlen(keys.inbox))
        once(redis, keys)
        events = [json.loads(fields[b"message"])["match_id"] for _, fields in redis.xrange(keys.outbox)]
    assert len(events) == len(set(events)) == LETTERS - WRONG
    # And each player's were rated in the order in which they were sent
    order = [int(match_id.removeprefix("m-")) for match_id in events]
    for modulus in (97, 89):
        for rest in range(modulus):
            own = [number for number in order if number % modulus == rest]
            assert own == sorted(own)


@pytest.mark.slow
def test_replay_and_worker_may_be_killed_together(server: Endpoint, ladder: str, tmp_path: Path) -> None:
    keys = Keys(ladder)
    config = config_file(tmp_path / "ladders.toml", ladder)
    quick = {"RATINGS_IDLE_SECONDS": "1"}
    with server.client() as redis:
        fill(redis, keys, ladder)
        for number in range(2):
            with Worker.running(server.url, config, tmp_path / f"w{number}.log", **quick) as worker:
                with replaying(server.url, ladder):
                    until(lambda: redis.xlen(keys.dead_letters) < LETTERS - 100 * (number + 1))  # noqa: B023
                    worker.process.kill()
                once(redis, keys)
        with Worker.running(server.url, config, tmp_path / "last.log", **quick):
            command("dead-letters", "replay", "--reason", "failed", url=server.url, config=config)
            until(lambda: not redis.xlen(keys.inbox))
        once(redis, keys)
        events = [json.loads(fields[b"message"])["match_id"] for _, fields in redis.xrange(keys.outbox)]
        assert len(events) == len(set(events)) == LETTERS - WRONG
