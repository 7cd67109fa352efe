"""Closing periods by the command line and by the workers' job, killed in the middle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from arq.connections import ArqRedis
from redis.asyncio import Redis

from embedded import Server
from match_ratings import QUEUE, Cause
from match_ratings_worker.jobs.json_job_serializer import encode_job
from match_ratings_worker.rating import Fide
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import HOUR, month_start
from tests.support.processes import Worker, command, config_file, environment
from tests.support.rounds import Rounds
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PLAYERS = 2000


@pytest.fixture
def server_of_its_own() -> Iterator[Server]:
    """A server whose arq queue no other test uses."""
    with Server() as started:
        yield started


async def hold(url: str, ladder: str) -> None:
    """A game for each two of many players, in a month that is over."""
    async with Redis.from_url(url) as redis:
        rounds = Rounds(redis, ladder, Fide())
        ended = month_start(1)
        for number in range(PLAYERS // 2):
            match = {
                "match_id": f"m{number}",
                "players": [f"a{number}", f"b{number}"],
                "winner": f"a{number}",
            }
            await rounds.send_at(
                ended - 2 * HOUR + number, {**match, "finished_at": ended - 2 * HOUR + number}
            )
        await rounds.rate()


async def check(url: str, ladder: str) -> None:
    """Every player has exactly one closing, and the rating that it says."""
    async with Redis.from_url(url) as redis:
        rounds = Rounds(redis, ladder, Fide())
        closings = [event.players[0] for event in await rounds.events() if event.cause is Cause.PERIOD]
        assert Counter(part.player for part in closings) == Counter(
            f"{side}{number}" for side in "ab" for number in range(PLAYERS // 2)
        )
        assert {(part.player[0], part.change, part.sequence) for part in closings} == {
            ("a", 20, 2),
            ("b", -20, 2),
        }
        assert await rounds.listed() == {part.player: part.after for part in closings}
        assert await redis.zcard(rounds.keys.open_periods) == 0
        for part in closings[::100]:
            assert (await rounds.state(part.player)).rating == part.after


def closed(redis: Any, keys: Keys) -> int:
    return int(redis.hget(keys.counts, "closed") or 0)


def more_closed_than(before: int, redis: Any, keys: Keys) -> bool:
    return closed(redis, keys) > before


def test_a_killed_command_has_closed_each_player_wholly_or_not_at_all(
    server_of_its_own: Server, ladder: str, tmp_path: Path
) -> None:
    url = server_of_its_own.url
    config = config_file(tmp_path / "ladders.toml", ladder, system="fide")
    asyncio.run(hold(url, ladder))
    keys = Keys(ladder)
    with server_of_its_own.client() as redis:
        for _ in range(2):
            before = closed(redis, keys)
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from match_ratings_worker.cli.app import main; main()",
                    "close-period",
                ],
                env=environment(url, config),
                stdout=subprocess.DEVNULL,
            )
            until(partial(more_closed_than, before, redis, keys), pause=0.0005)
            process.kill()
            process.wait()
        assert 0 < closed(redis, keys) < PLAYERS  # it was indeed killed in the middle
        left = PLAYERS - closed(redis, keys)
        planned = command("close-period", "--dry-run", "--json", url=url, config=config).json_lines
        assert len(planned) == left and closed(redis, keys) == PLAYERS - left
        done = command("close-period", "--json", url=url, config=config)
        assert sorted(map(str, done.json_lines)) == sorted(map(str, planned))
        assert command("close-period", "--json", url=url, config=config).stdout == ""
    asyncio.run(check(url, ladder))


async def order_a_closing(url: str) -> None:
    """The job that arq's cron gives to one worker each minute, now."""
    async with ArqRedis.from_url(url) as pool:
        pool.job_serializer = encode_job
        await pool.enqueue_job("cron:close_periods", _queue_name=QUEUE)


def test_the_workers_job_closes_by_the_adopted_settings_and_survives_kills(
    server_of_its_own: Server, ladder: str, tmp_path: Path
) -> None:
    url = server_of_its_own.url
    ours = config_file(tmp_path / "ours.toml", ladder, system="fide")
    other = config_file(tmp_path / "other.toml", ladder, system="fide", k=10)
    asyncio.run(hold(url, ladder))
    keys = Keys(ladder)
    with server_of_its_own.client() as redis:
        # Given a worker that is killed in the middle of the job
        with Worker.running(url, ours, tmp_path / "a.log") as first:
            asyncio.run(order_a_closing(url))
            until(lambda: closed(redis, keys), pause=0.0005)
            first.kill()
        assert 0 < closed(redis, keys) < PLAYERS
        # When the next job is run by a worker with other settings, which rates nothing itself
        with Worker.running(url, other, tmp_path / "b.log") as second:
            until(lambda: second.said("not rating"))
            asyncio.run(order_a_closing(url))
            until(lambda: closed(redis, keys) == PLAYERS)
            until(lambda: second.said("closed rating periods"))
    # Then each player is closed once, by the adopted settings: K 40, not 10.
    asyncio.run(check(url, ladder))
