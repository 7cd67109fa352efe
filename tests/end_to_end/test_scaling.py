"""Several processes, figures for an autoscaler, and memory that does not grow with the backlog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from redis.asyncio import Redis

from embedded import Server, free_port
from match_ratings import MatchFinished, publish
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import now_ms
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.server, pytest.mark.slow]


@contextmanager
def worker(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "RATINGS_IDLE_SECONDS": "2", "RATINGS_LOG_LEVEL": "warning", **environment}
    process = subprocess.Popen([sys.executable, "-m", "match_ratings_worker", "worker", *arguments], env=env)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(process.pid).children() if child.status() != psutil.STATUS_ZOMBIE
    ]


def send(server: Server, first: int, last: int) -> None:
    now = now_ms()
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(first, last):
            match = MatchFinished(
                match_id=f"m{number}",
                ladder="backgammon",
                players=(f"p{number % 50}", f"q{number % 49}"),
                winner=f"p{number % 50}",
                finished_at=now,
            )
            pipe.xadd(Keys("backgammon").inbox, {"message": match.model_dump_json()})
        pipe.execute()


def events(server: Server) -> int:
    with server.client() as client:
        return int(client.xlen(Keys("backgammon").outbox))


def test_processes_rate_are_started_anew_and_stop_together(own_server: Server) -> None:
    # Given two processes under one command
    with worker("--processes", "2", RATINGS_REDIS_URL=own_server.url) as process:
        send(own_server, 0, 500)
        until(lambda: events(own_server) == 500)
        until(lambda: len(children(process)) == 2)
        # When one of them is killed
        victim = children(process)[0]
        victim.kill()
        # Then another is started, and all goes on
        until(lambda: len([c for c in children(process) if c.pid != victim.pid]) == 2)
        send(own_server, 500, 1000)
        until(lambda: events(own_server) == 1000)
        # When the command is told to stop
        running = children(process)
        process.send_signal(signal.SIGTERM)
        # Then it ends well, and so have they
        assert process.wait(PATIENCE) == 0
        assert not [child for child in running if child.is_running()]


def test_the_figures_an_autoscaler_needs_are_served(own_server: Server) -> None:
    # Given matches that nobody can claim yet, and a worker that serves its figures
    port = free_port()
    with worker(RATINGS_REDIS_URL=own_server.url, RATINGS_METRICS_PORT=str(port)):
        send(own_server, 0, 300)
        until(lambda: events(own_server) == 300)

        def served() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
                return str(reply.read().decode())

        # When it has measured, then each figure is there
        until(lambda: 'outcome="rated"} 300.0' in served())
        text = served()
        for name in ("backlog", "lag", "oldest_seconds", "dead_letters", "busy_share", "claimed"):
            assert f'ratings_{name}{{ladder="backgammon"}}' in text
        assert 'ratings_backlog{ladder="backgammon"} 0.0' in text
    # And the busy share that it left for `status` is gone with it
    with own_server.client() as client:
        assert not client.hlen(Keys("backgammon").busy_shares)


async def test_a_worker_holds_no_more_messages_than_its_limit(redis: Redis, ladder: str) -> None:
    # Given a message at the head of a line in another worker's hands, and a thousand behind it
    system = Backgammon()
    store = LadderStore(redis, ladder, system, horizon=14 * 86_400_000)
    await store.join_group()
    now = now_ms()
    for number in range(1000):
        await publish(
            redis,
            MatchFinished(
                match_id=f"m{number}", ladder=ladder, players=("ada", "bob"), winner="ada", finished_at=now
            ),
        )
    await store.claim("another", "new", 1)
    # When a worker claims and rates as often as it likes
    engine = BatchProcessor(store, ladder, system, "one", Limits(batch=64, waiting=128))
    for _ in range(20):
        await engine.claim_new()
        await engine.settle()
    await engine.drain()
    # Then it holds its limit and one batch at the most, and nothing was rated out of turn
    assert 64 <= len(engine.waiting) < 128 + 64
    assert await redis.xlen(store.keys.outbox) == 0
