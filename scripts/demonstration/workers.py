"""The demo's worker processes: started, found in Redis, killed in the middle of their work, and ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from child_processes import tied_to_parent
from match_ratings.stream_names import GROUP

__all__ = ["Failure", "Group", "Worker", "crew", "until"]

#: Seconds that a worker may take to finish its batch and end, and that anything else may take.
_STOP, _PATIENCE = 10.0, 30.0
#: Seconds in which a worker is to be found with messages in hand.
_CATCH = 3.0


class Failure(Exception):
    """The demo cannot go on; the text says why."""


class Worker:
    """The process of one worker; it ends with this one, however that ends (on Linux)."""

    def __init__(self, number: int, log: Path) -> None:
        self.number, self.log = number, log
        #: starting, rating or killed.
        self.state = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Runs the command that an operator runs."""
        self.state = "starting"
        command = [str(Path(sys.executable).with_name("match-ratings")), "worker"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                tied_to_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo
            )

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def check(self) -> None:
        """Raises Failure when the process is gone and nobody here ended it."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise Failure(f"worker {self.number} ended by itself with status {status}")

    def wait(self, seconds: float) -> None:
        """Waits for the end, and kills a process that takes longer."""
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Ends the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self.state = None, "killed"


@contextmanager
def crew(count: int, logs: Path) -> Iterator[list[Worker]]:
    """Workers 1 to `count`; they are ended in good order, or at once when the demo breaks off."""
    workers = [Worker(number, logs / f"worker-{number}.log") for number in range(1, count + 1)]
    try:
        for worker in workers:
            worker.start()
        yield workers
        for worker in workers:
            worker.signal(signal.SIGTERM)
        end = time.monotonic() + _STOP
        for worker in workers:
            worker.wait(max(end - time.monotonic(), 0.1))
    finally:
        for worker in workers:
            worker.kill()


@dataclass(frozen=True, slots=True)
class Group:
    """The workers as the consumer group of an inbox knows them."""

    redis: Redis
    inbox: str

    async def until_there(self, worker: Worker) -> None:
        """Waits until a worker asks for messages."""

        async def there() -> bool:
            worker.check()
            return await self._find(worker) is not None

        await until(there, f"worker {worker.number} did not start")
        worker.state = "rating"

    async def kill(self, worker: Worker) -> tuple[str, int]:
        """Lets a stopped worker go on and kills it when it has messages in hand.

        Returns its consumer's name and how many they are.
        """
        end = time.monotonic() + _CATCH
        while True:
            worker.signal(signal.SIGCONT)
            await asyncio.sleep(0.001)
            worker.signal(signal.SIGSTOP)
            found = await self._find(worker)
            if found and (found["pending"] or time.monotonic() > end):
                worker.kill()
                return found["name"], found["pending"]

    async def until_taken_over(self, name: str) -> None:
        """Waits until a consumer holds nothing any more."""

        async def nothing() -> bool:
            return not any(one["name"] == name and one["pending"] for one in await self._consumers())

        await until(nothing, "nobody took over what the killed worker had in hand")

    async def _find(self, worker: Worker) -> dict[str, Any] | None:
        for consumer in await self._consumers():
            if consumer["name"].split(":")[-2:-1] == [str(worker.pid)]:
                return consumer
        return None

    async def _consumers(self) -> list[dict[str, Any]]:
        try:
            found = await self.redis.xinfo_consumers(self.inbox, GROUP)
        except ResponseError:  # no worker has made the group yet
            return []
        return [{**consumer, "name": consumer["name"].decode()} for consumer in found]


async def until(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Waits until something holds; raises Failure with the reason when that takes too long."""
    end = time.monotonic() + _PATIENCE
    while not await holds():
        if time.monotonic() > end:
            raise Failure(f"{otherwise} within {_PATIENCE:.0f} s")
        await asyncio.sleep(0.02)
