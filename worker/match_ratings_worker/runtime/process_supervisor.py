"""Several worker processes on one machine: starts them, restarts those that end, and stops them together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Final

import structlog

from match_ratings_worker.backoff import Backoff

from .stop_signals import STOP_SECONDS, stop_signals

log = structlog.get_logger(__name__)

#: First and longest pause before a process that ended is restarted, in seconds.
_PAUSES: Final = (0.5, 30.0)
#: Seconds after which a running process counts as healthy.
_HEALTHY_SECONDS: Final = 10.0
#: Give up when each process ended this often in a row before it was healthy.
_MOST_FAILURES: Final = 5
#: Exit codes of a worker with a wrong setting, and of one that cannot reach Redis.
_WRONG_INPUT, _UNAVAILABLE = 2, 3


class WorkersKeepEnding(Exception):
    """Raised when all workers keep ending soon after they start; the text is one sentence."""


def supervise(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> int:
    """Run `command` once for each environment until SIGTERM, SIGINT or SIGHUP; returns the exit code.

    Each process gets a pipe as its standard input, which ends with this process. One that ends by itself
    is restarted after a pause. One that ends with code 2 or 3 at its first start (a wrong setting, no
    Redis) ends them all with that code. Raises WorkersKeepEnding.
    """
    workers = [_Worker(command, environment) for environment in environments]
    with _stop_requests() as stopping:
        try:
            while not stopping:
                for worker in workers:
                    code = worker.poll()
                    if code in (_WRONG_INPUT, _UNAVAILABLE) and worker.starts == 1:
                        return code
                if all(worker.failures >= _MOST_FAILURES for worker in workers):
                    msg = (
                        f"the workers keep ending soon after their start, {_MOST_FAILURES} times in a row, "
                        f"last with {_ending(workers[-1].last_code)}; their log has the reason"
                    )
                    raise WorkersKeepEnding(msg)
                time.sleep(0.1)
            return 0
        finally:
            for worker in workers:
                worker.terminate()
            deadline = time.monotonic() + STOP_SECONDS
            for worker in workers:
                worker.wait(deadline - time.monotonic())


@contextlib.contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """The signals that arrived and ask for the end."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


class _Worker:
    """One worker process and its successors."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._backoff = Backoff(*_PAUSES)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._due = 0.0
        self.starts = 0
        #: Runs in a row that ended before they were healthy, other than for want of Redis.
        self.failures = 0
        self.last_code = 0

    def poll(self) -> int | None:
        """Start the process when it is due; returns the exit code when it has just ended."""
        if self._process is None:
            if time.monotonic() >= self._due:
                self._process = self._start()
            return None
        healthy = time.monotonic() - self._started >= _HEALTHY_SECONDS
        if healthy:
            self.failures = 0
            self._backoff.reset()
        code = self._process.poll()
        if code is None:
            return None
        if not healthy and code != _UNAVAILABLE:
            self.failures += 1
        self.last_code = code
        pause = self._backoff.next_pause()
        self._due = time.monotonic() + pause
        log.warning(
            "worker process ended, restarting",
            process=self._process.pid,
            ended_with=_ending(code),
            pause=pause,
        )
        self._close()
        return code

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        self._started = time.monotonic()
        # In a session of its own, so that Ctrl-C reaches only the supervisor, which passes it on once.
        return subprocess.Popen(
            self._command,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def terminate(self) -> None:
        """Ask the process to stop."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait for the process to end, and kill it when it takes longer."""
        if self._process is None:
            return
        try:
            self._process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            log.warning("worker process did not stop in time, killing it", process=self._process.pid)
            self._process.kill()
            self._process.wait()
        self._close()
