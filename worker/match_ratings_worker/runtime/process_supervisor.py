"""Several worker processes on one machine: starts them, starts them anew, and stops them together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType

__all__ = ["supervise"]

#: Seconds that the workers get to finish their batches before they are killed.
_STOP_SECONDS = 15.0
#: Seconds before a worker that ended by itself is started anew; doubled each time, up to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


def supervise(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> int:
    """Runs `command` once for each environment until SIGTERM or SIGINT; returns the exit code.

    A process that ends by itself is started anew after a pause. One that ends with code 2 or 3 at its
    first start (a wrong setting, no Redis) ends them all with that code.
    """
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    workers = [_Worker(command, environment) for environment in environments]
    try:
        while not stopping:
            for worker in workers:
                code = worker.look()
                if code in (2, 3) and worker.starts == 1:
                    return code
            time.sleep(0.1)
        return 0
    finally:
        for worker in workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in workers:
            worker.wait(deadline - time.monotonic())
        for number, handler in before.items():
            signal.signal(number, handler)


class _Worker:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._pause, self._due = _FIRST_PAUSE, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def look(self) -> int | None:
        """Starts the process when it is due; the exit code when it has just ended."""
        if self._process is None:
            if time.monotonic() >= self._due:
                # A group of its own: Ctrl-C reaches only the supervisor, which passes it on once.
                self._process = subprocess.Popen(
                    self._command, env={**os.environ, **self._environment}, start_new_session=True
                )
                self.starts += 1
            return None
        code = self._process.poll()
        if code is None:
            return None
        self._process = None
        self._due = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        sys.stderr.write(f"match-ratings: a worker ended with {code}; starting another\n")
        return code

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
