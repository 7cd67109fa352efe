"""The place where everything is measured: a server of its own, workers, and the time to empty a stream."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.matches import LADDER
from benchmarks.processes import BenchError, Program, environment
from benchmarks.report import Spread
from benchmarks.wire import Wire, pack
from embedded import Server
from match_ratings.stream_names import GROUP, inbox, leaderboard, outbox

__all__ = ["Drain", "Lab", "Summary", "summary"]

#: The pause between two looks at the server while something is measured, in seconds.
_PAUSE = 0.025
#: Seconds after which a worker that does not finish is given up.
_PATIENCE = 120.0


class Drain(NamedTuple):
    """A stream emptied by one or more workers."""

    matches: int
    seconds: float
    worker_cpu: float
    server_cpu: float
    #: A hash of the final leaderboard; empty when that was not waited for.
    ratings: str

    @property
    def rate(self) -> float:
        return self.matches / self.seconds


class Summary(NamedTuple):
    """Several drains: matches/s and the CPU of each match in microseconds."""

    rate: Spread
    worker_us: Spread
    server_us: Spread

    def row(self, name: str, **more: Any) -> dict[str, Any]:
        """A row for the report."""
        return {"name": name, **self._asdict(), **more}


def summary(drains: Sequence[Drain]) -> Summary:
    """The figures of several drains together."""
    return Summary(
        Spread([drain.rate for drain in drains]),
        Spread([drain.worker_cpu / drain.matches * 1e6 for drain in drains]),
        Spread([drain.server_cpu / drain.matches * 1e6 for drain in drains]),
    )


@dataclass
class Lab:
    """A running server, and what is done with it."""

    server: Server
    wire: Wire
    #: Seconds instead of minutes, figures without meaning.
    quick: bool
    #: Whether the server writes a log of all that changes.
    appendonly: bool = False
    #: The part that is under way, and what shows it.
    part: str = ""
    show: Callable[[str], None] = print

    def step(self, text: str) -> None:
        """Says what is under way."""
        self.show(f"{self.part}: {text}")

    @contextmanager
    def another(self) -> Iterator[Lab]:
        """A second server of the same kind."""
        with Server(appendonly=self.appendonly) as server:
            wire = Wire(server.port)
            yield Lab(server, wire, self.quick, self.appendonly, self.part, self.show)
            wire.close()

    def rounds(self, count: int, seconds: float) -> Iterator[int]:
        """Numbers of rounds, from 1: `count`, or as many as begin within `seconds`; one in a quick run."""
        end = time.monotonic() + seconds
        for turn in range(1 if self.quick else count):
            if turn and time.monotonic() > end:
                return  # a busy machine: fewer rounds instead of a run without an end
            yield turn + 1

    def size(self, full: int, quick: int) -> int:
        """How much to do."""
        return quick if self.quick else full

    def info(self, section: str) -> dict[str, str]:
        """One section of the server's INFO."""
        lines = self.wire.call("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def server_cpu(self) -> float:
        """Seconds of CPU that the server has used so far."""
        used = self.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def emptied(self, *ladders: str) -> list[bytes]:
        """Packed commands that empty the server without the workers seeing their group gone."""
        groups = [
            pack("XGROUP", "CREATE", inbox(ladder), GROUP, "0", "MKSTREAM") for ladder in ladders or (LADDER,)
        ]
        return [pack("FLUSHALL", "SYNC"), *groups]

    @contextmanager
    def workers(self, count: int = 1, *, ladders: int = 1, **settings: str) -> Iterator[list[Program]]:
        """Rating workers as a user starts them; `settings` are environment variables.

        They wait for messages on so many ladders; with 0 this does not wait until they do.
        """
        started: list[Program] = []
        try:
            self.add_workers(started, count, ladders=ladders, **settings)
            yield started
        finally:
            for worker in started:
                worker.stop()

    def add_workers(self, running: list[Program], count: int, *, ladders: int = 1, **settings: str) -> None:
        """Starts more workers and waits until all wait for messages, with a connection for each ladder."""
        command = [str(Path(sys.executable).with_name("match-ratings")), "worker"]
        env = environment(**{"RATINGS_REDIS_URL": self.server.url, **settings})
        for _ in range(count):
            running.append(Program(command, env, self.log()))
        deadline = time.monotonic() + 30
        while int(self.info("clients")["blocked_clients"]) < len(running) * ladders:
            for worker in running:
                worker.check()
            if time.monotonic() > deadline:
                raise BenchError("a worker did not get ready within 30 s")
            time.sleep(_PAUSE)

    def log(self) -> Path:
        """A new file for what a program says."""
        return self.server.directory / f"{time.monotonic_ns()}.log"

    def drain(
        self,
        commands: Sequence[bytes],
        workers: Sequence[Program],
        *,
        ladder: str = LADDER,
        keep: bool = False,
        patience: float = 0.0,
    ) -> Drain:
        """Fills the stream in one step and waits until running workers have emptied it.

        The server is emptied before, except with `keep`. With `patience` it is over after that many
        seconds, with what was rated until then and no hash of ratings; else that is an error.
        """
        stream = outbox(ladder)
        before = self.wire.call("XLEN", stream) if keep else 0
        wanted = before + len(commands)
        worker_cpu = sum(worker.cpu() for worker in workers)
        begun = self.wire.at_once(commands if keep else [*self.emptied(ladder), *commands])
        server_cpu = self.server_cpu()  # without the filling
        deadline = time.monotonic() + (patience or _PATIENCE)
        while (rated := self.wire.call("XLEN", stream)) < wanted:
            if not self.wire.call("XLEN", inbox(ladder)) and self.wire.call("XLEN", stream) < wanted:
                raise BenchError(f"{wanted - rated} of {len(commands)} matches were not rated")
            if time.monotonic() > deadline:
                if patience and rated > before:
                    break
                raise BenchError(f"only {rated - before} matches were rated in {patience or _PATIENCE:.0f} s")
            for worker in workers:
                worker.check()
            time.sleep(_PAUSE)
        server_cpu = self.server_cpu() - server_cpu
        worker_cpu = sum(worker.cpu() for worker in workers) - worker_cpu
        last = self.wire.call("XREVRANGE", stream, "+", "-", "COUNT", 1)[0][0]
        seconds = int(last.split("-")[0]) / 1000 - begun
        ratings = self.ratings(ladder) if rated == wanted else ""
        return Drain(rated - before, seconds, worker_cpu, server_cpu, ratings)

    def ratings(self, ladder: str = LADDER) -> str:
        """A hash of the whole leaderboard."""
        board = self.wire.call("ZRANGE", leaderboard(ladder), 0, -1, "WITHSCORES")
        return hashlib.sha256("\n".join(board).encode()).hexdigest()[:16]
