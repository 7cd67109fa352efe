"""Programs that the benchmark starts: their log, their CPU time, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from child_processes import tied_to_parent

__all__ = ["SCRIPTS", "BenchError", "Program", "environment"]

#: Where the packages `benchmarks` and `peers` are.
SCRIPTS = Path(__file__).resolve().parents[1]


class BenchError(Exception):
    """Why nothing can be measured, for a person."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment without settings that would change what is measured."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RATINGS_", "PYTHON", "ARQ_"))
    }
    return {**own, "PYTHONPATH": str(SCRIPTS), **more}


class Program:
    """A running program; it ends with this process, whatever happens."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                tied_to_parent(command),
                env=dict(env),
                cwd=SCRIPTS.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._seen = psutil.Process(self.pid)

    def check(self) -> None:
        """Raises BenchError with its last words when it has ended."""
        if self._process.poll() is not None:
            said = self.log.read_text(errors="replace")[-1500:].strip()
            raise BenchError(f"a worker ended with status {self._process.returncode}:\n{said}")

    def cpu(self) -> float:
        """Seconds of CPU used so far, children included."""
        total = 0.0
        for process in (self._seen, *self._seen.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def stop(self, seconds: float = 10.0) -> None:
        """Ends it in good order, or, when that takes longer than `seconds`, at once."""
        if seconds and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what it left behind as well
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
