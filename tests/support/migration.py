"""What these tests share: the command line's fixtures, files of players, and commands that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import DAY

#: Keys with times of their own.
_SETTINGS = ("settings", "settings-history", "counts")

#: Runs the command line and ends itself by SIGKILL at the n-th call of a script, before or after it.
_KILLED = """
import os, signal, sys
from match_ratings_worker import cli
from match_ratings_worker.storage.lua_scripts import Script
number, when, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
wanted, calls, original = Script(name).sha, 0, Script.__call__
async def call(self, line, keys, args):
    global calls
    calls += self.sha == wanted
    last = self.sha == wanted and calls == number
    if last and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    reply = await original(self, line, keys, args)
    if last and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return reply
Script.__call__ = call
sys.exit(cli.call(sys.argv[4:]))
"""


@pytest.fixture
def killed() -> Callable[..., bool]:
    """Runs a command that is killed at a script call, if it comes so far; says whether it did."""

    def run(number: int, when: str, script: str, *arguments: str) -> bool:
        command = [sys.executable, "-c", _KILLED, str(number), when, script, *arguments]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        return ended.returncode != 0

    return run


@pytest.fixture
def players(tmp_path: Path) -> Callable[..., str]:
    """Writes players to a file and returns its name."""

    def write(*lines: dict[str, Any] | bytes, name: str = "players.jsonl") -> str:
        path = tmp_path / name
        path.write_bytes(
            b"".join(
                (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
            )
        )
        return str(path)

    return write


def old_players(count: int, now: int) -> list[dict[str, Any]]:
    """Players with some games of the last week, shared by two neighbours each."""
    found = []
    for number in range(count):
        pair, games = number // 2, number // 2 % 5
        recent = [
            {"match_id": f"old-{pair}-{game}", "finished_at": now - (game + 1) * DAY - pair % 1000}
            for game in range(games)
        ]
        found.append(
            {
                "player": f"player-{number}",
                "rating": 1200 + number % 700,
                "games": games + number % 300,
                "recent_games": recent,
            }
        )
    return found


def dump(
    redis: Redis, keys: Keys, *, without: Iterable[str] = ("settings", "settings-history", "counts")
) -> dict[str, Any]:
    """All that a ladder, or a shadow, has in Redis, without the times of events."""
    scope = keys.counts.removesuffix(":counts")
    found: dict[str, Any] = {}
    for key in redis.scan_iter(match=f"{scope}:*", count=5000):
        name = key.decode().removeprefix(f"{scope}:")
        if name in without or (not keys.shadow and name.startswith("shadow:")):
            continue
        kind = redis.type(key)
        if kind == b"hash":
            found[name] = redis.hgetall(key)
        elif kind == b"zset":
            found[name] = redis.zrange(key, 0, -1, withscores=True)
        elif kind == b"string":
            found[name] = redis.get(key)
        elif kind == b"list":
            found[name] = redis.lrange(key, 0, -1)
        else:
            found[name] = sorted(events(redis, key), key=json.dumps)
    return found


def events(redis: Any, stream: str | bytes) -> list[dict[str, Any]]:
    """The events of a ledger in their order, without what differs from run to run."""
    found = []
    for _, fields in redis.xrange(stream):
        event = json.loads(fields[b"message"])
        if event["cause"] == "import":
            del event["finished_at"]
        event.pop("rated_at")
        found.append(event)
    return found


def environment(**other: str) -> dict[str, str]:
    return {**os.environ, **other}


def payload(number: int, *names: str, cause: str = "match", **other: Any) -> bytes:
    parts = [
        {"player": name, "before": 1500, "change": 1, "after": 1501, "sequence": number} for name in names
    ]
    head = {"version": 1, "cause": cause, "match_id": f"m-{number}", "ladder": "x", "system": "backgammon"}
    times = {"rules": "1.3.1", "finished_at": 1_700_000_000_000, "rated_at": 1_700_000_000_000}
    return json.dumps({**head, **times, "players": parts, **other}).encode()
