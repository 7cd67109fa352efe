"""The worker command: it rates, refuses a server that is not fit, and ends without a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded import Server

Spawn = Callable[..., subprocess.Popen[bytes]]


@contextlib.contextmanager
def running(spawn: Spawn, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that has begun to rate."""
    process = spawn("worker", env={**os.environ, "RATINGS_REDIS_URL": url})
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if json.loads(line)["event"] == "rating":
                break
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], number: int) -> str:
    """What a worker says after this signal, in the end with code 0 and in time."""
    begun = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=15)
    assert process.returncode == 0
    assert time.monotonic() - begun < 7
    assert not out and b"Traceback" not in err
    return err.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_rates_and_ends_with_0(site: Any, spawn: Spawn, number: int) -> None:
    with running(spawn, site.url) as process:
        site.send(site.match("m-1"))
        deadline = time.monotonic() + 5
        while site.redis.zcard(site.keys.leaderboard) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        ended(process, number)
    assert site.redis.xlen(site.keys.inbox) == 0
    assert site.redis.zscore(site.keys.leaderboard, "ada") == 1516


def test_it_ends_with_0_when_redis_is_away(own_server: Server, settings: Any, spawn: Spawn) -> None:
    with running(spawn, own_server.url) as process:
        own_server.kill()
        time.sleep(0.5)
        ended(process, signal.SIGTERM)


def test_it_does_not_start_on_a_replica(own_server: Server, settings: Any, call: Any) -> None:
    with own_server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    settings.setenv("RATINGS_REDIS_URL", own_server.url)
    result = call("worker")
    assert result.code == 3
    assert result.err.startswith("match-ratings: this is a replica") and result.err.count("\n") == 1
