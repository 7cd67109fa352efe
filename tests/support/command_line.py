"""What the tests of the command line share: a ladder, a way to call, and matches that are rated."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from redis import Redis

from embedded import Endpoint
from match_ratings.stream_names import FIELD, GROUP
from match_ratings_worker import cli
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import now_ms

MATCH_RATINGS = [sys.executable, "-c", "from match_ratings_worker.cli.app import main; main()"]


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line of a plain table, without its titles."""
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def json(self) -> Any:
        """The only line of output, as JSON."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """Each line of output, as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli(Protocol):
    """Calls the command line in this process."""

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Result: ...


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment, without any RATINGS_* but those that a test sets."""
    for name in os.environ:
        if name.startswith("RATINGS_"):
            monkeypatch.delenv(name)
    return monkeypatch


class Site:
    """A ladder of a test's own, configured for the command line, and its keys."""

    def __init__(self, url: str, ladder: str, redis: Redis, config: Path) -> None:
        self.url = url
        self.ladder = ladder
        self.redis = redis
        self.keys = Keys(ladder)
        self.config = config

    def match(
        self, match_id: str, players: tuple[str, str] = ("ada", "bob"), /, **other: Any
    ) -> dict[str, Any]:
        """A match that the first player won a minute ago."""
        now = now_ms()
        match = {"match_id": match_id, "ladder": self.ladder, "players": players, "winner": players[0]}
        return {**match, "finished_at": now - 60_000, **other}

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        """Puts messages into the inbox as a match server does."""
        for message in messages:
            raw = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.redis.xadd(self.keys.inbox, {FIELD: raw})

    def rate(self, *messages: dict[str, Any] | bytes) -> None:
        """Sends messages, and rates all that are in the inbox."""
        self.send(*messages)
        asyncio.run(self._rate())

    async def _rate(self) -> None:
        async with connect(self.url) as redis:
            store = LadderStore(redis, self.ladder, Backgammon(), horizon=14 * 86_400_000)
            engine = BatchProcessor(store, self.ladder, Backgammon(), "test")
            await store.join_group()
            while await engine.claim_new() or engine.waiting:
                await engine.settle()
            await redis.xgroup_delconsumer(self.keys.inbox, GROUP, "test")


@pytest.fixture
def site(server: Endpoint, ladder: str, settings: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A ladder with the backgammon system, the only one in RATINGS_CONFIG."""
    config = tmp_path / "ladders.toml"
    config.write_text(f"[ladders.{ladder}]\n")
    settings.setenv("RATINGS_REDIS_URL", server.url)
    settings.setenv("RATINGS_CONFIG", str(config))
    with server.client() as redis:
        yield Site(server.url, ladder, redis, config)


@pytest.fixture
def call(settings: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Calls the command line in this process."""

    def run(*arguments: str, stdin: bytes | None = None) -> Result:
        settings.setattr(sys, "stdin", None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.call(arguments)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the command line as a process of its own."""

    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*MATCH_RATINGS, *arguments], **{**pipes, **options})

    return start
