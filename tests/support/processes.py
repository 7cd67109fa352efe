"""Worker processes for tests: started with a configuration of their own, watched by their log, killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.support.waiting import PATIENCE, until

_MAIN = [sys.executable, "-c", "from match_ratings_worker.cli.app import main; main()"]


def environment(url: str, config: Path, **other: str) -> dict[str, str]:
    """This process's environment with the given RATINGS_* variables and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RATINGS_")}
    return {**kept, "RATINGS_REDIS_URL": url, "RATINGS_CONFIG": str(config), **other}


def config_file(path: Path, ladder: str, **settings: Any) -> Path:
    """Writes a configuration with one ladder; nested settings become inline tables."""
    lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    path.write_text(f"[ladders.{ladder}]\n" + "\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {_toml(item)}' for name, item in value.items()) + " }"
    return json.dumps(value)


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The only line of output, as JSON."""
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        """Each line of output, as JSON."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def command(*arguments: str, url: str = "", config: Path | None = None) -> Ended:
    """Runs the command line to its end, in this process, where that is all the RATINGS_* there is."""
    from match_ratings_worker import cli

    out, err = io.StringIO(), io.StringIO()
    wanted = {"RATINGS_REDIS_URL": url} if url else {}
    wanted |= {"RATINGS_CONFIG": str(config)} if config else {}
    kept = {name: value for name, value in os.environ.items() if name.startswith("RATINGS_")}
    with patch.dict(os.environ, wanted), redirect_stdout(out), redirect_stderr(err):
        for name in kept.keys() - wanted.keys():
            del os.environ[name]
        code = cli.call(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


class Worker:
    """A worker process; its log is kept in a file."""

    def __init__(self, url: str, config: Path, log: Path, **other: str) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*_MAIN, "worker"],
                env=environment(url, config, **other),
                stdin=subprocess.DEVNULL,
                stderr=file,
            )

    @classmethod
    @contextmanager
    def running(cls, url: str, config: Path, log: Path, **other: str) -> Iterator[Worker]:
        """A worker that has begun, and that is gone at the end."""
        worker = cls(url, config, log, **other)
        try:
            until(lambda: worker.said("rating"), otherwise=log.read_text)
            yield worker
        finally:
            worker.kill()

    def said(self, words: str) -> bool:
        """Whether an event of the log begins with these words."""
        return any(str(line.get("event", "")).startswith(words) for line in self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """The log, as far as it is written."""
        return [
            json.loads(line)
            for line in self.log.read_text().splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def stop(self) -> None:
        """Ends it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()
