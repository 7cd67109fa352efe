"""The demo's worker processes: started, watched, killed, started anew and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded import _DIE_WITH_PARENT

__all__ = ["Ended", "Worker", "crew"]

#: Seconds that workers may take to finish their batch and end.
_STOP_SECONDS = 10.0


class Ended(Exception):
    """A worker ended by itself; the text says which and how."""


class Worker:
    """One worker at a time, under a number; it ends with this process, however that ends (on Linux)."""

    def __init__(self, number: int, log: Path) -> None:
        self.number, self.log = number, log
        self.state = "starting"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Starts the command that an operator would start."""
        command = [str(Path(sys.executable).with_name("match-ratings")), "worker"]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo
            )
        self.state = "starting"

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.state = "killed"

    def check(self) -> None:
        """Raises Ended when the worker is gone and nobody ended it."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise Ended(f"worker {self.number} ended by itself with status {status}")

    def wait(self, seconds: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None


@contextmanager
def crew(count: int, logs: Path) -> Iterator[list[Worker]]:
    """Workers 1 to `count`, started, and ended in good order, or at once if the demo breaks off."""
    workers = [Worker(number, logs / f"worker-{number}.log") for number in range(1, count + 1)]
    try:
        for worker in workers:
            worker.start()
        yield workers
        for worker in workers:
            worker.signal(signal.SIGTERM)
        end = time.monotonic() + _STOP_SECONDS
        for worker in workers:
            worker.wait(max(end - time.monotonic(), 0.1))
    finally:
        for worker in workers:
            worker.kill()
