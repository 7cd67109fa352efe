"""Runs the blocks of a Markdown document in order, as its reader would, and checks the output it shows.

Each document has a server, a folder and a shell environment of its own. `console` blocks hold commands after
`$ ` and what they print; in `sh`, `python`, `toml` and `json` blocks nothing is compared. A worker that a
block starts runs in the background until the end of the document. What varies is not compared: times, the
ids of replays, and stream ids, which stand for the real ones from where they are first shown. `...` stands
for any text.

A comment above a block tells the test what a reader knows:

    <!-- test: skip, WHERE IT IS RUN INSTEAD -->
    <!-- test: exit 1 -->            the last command ends with this code
    <!-- test: forever -->           a program that only ends when it is told to
    <!-- test: file NAME -->         the block is the content of this file
    <!-- invisible-code-block: sh    a block that only the test runs
    ... -->
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import redis
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser

from match_ratings import RatingUpdated
from match_ratings_worker.ladders_file import load_ladders

__all__ = ["LANGUAGES", "ROOT", "Session", "blocks", "directive"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
#: What blocks may be written in; those of the last three are only read.
LANGUAGES: Final = ("console", "sh", "python", "toml", "json", "yaml", "mermaid", "text")
_PATIENCE: Final = 30.0
_DIRECTIVE: Final = re.compile(r"<!-- test: ([^>]+?) -->\n\s*\Z")
_BACKGROUND: Final = re.compile(
    r"(?:\w+=\S+ )*(?:match-ratings worker|arq match_ratings_worker)\b(?!.*--help)"
)
_VARIES: Final = re.compile(
    r"(?P<any>\.\.\.)"
    r"|(?P<id>\b1[0-9]{12}-[0-9]+\b)"
    r"|(?P<time>\b20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{8,12}Z?|\b1[0-9]{12}\b)"
    r"|(?P<span>\b[0-9.]+ (?:ms|s|min)\b)"
    r"|(?P<run>\b[0-9a-f]{16}\b)"
    r"|(?P<space>\s+)"
)
_REDIS_CLI: Final = Path(__file__).with_name("redis_cli.py")
_ID: Final = r"1[0-9]{12}-[0-9]+"


def blocks(path: Path) -> list[tuple[str, Example]]:
    """Every block of a document with its language, in order; evaluating one gives it to `session`."""
    found: list[tuple[str, Example]] = []
    for language in LANGUAGES:

        def evaluate(example: Example, language: str = language) -> None:
            example.namespace["session"].run(language, str(example.parsed), directive(example))

        document = Sybil(parsers=[CodeBlockParser(language, evaluate)]).parse(path)
        found += [(language, example) for example in document.examples()]
    return sorted(found, key=lambda item: item[1].line)


def directive(example: Example) -> str:
    """What the comment above a block says to the test; empty without one."""
    document: Document = example.document
    before = document.text[: example.region.start] if hasattr(example, "region") else ""
    found = _DIRECTIVE.search(before)
    return found[1] if found else ""


class Session:
    """A reader at work: a folder, an environment, a server, and the programs that were started."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.ids: dict[str, str] = {}
        self.programs: list[subprocess.Popen[bytes]] = []
        tools = directory / ".tools"
        tools.mkdir()
        (tools / "redis-cli").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_REDIS_CLI}" "$@"\n')
        (tools / "redis-cli").chmod(0o755)
        for name in ("pyproject.toml", "README.md", "contracts", "worker", "scripts"):
            (directory / name).symlink_to(ROOT / name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RATINGS_")}
        self.environment = {
            **kept,
            "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), kept["PATH"]]),
            "RATINGS_REDIS_URL": url,
            "DOCUMENT_REDIS_URL": url,
            "USER": "support",
            "COLUMNS": "120",
            # pip shows that it could install what is named, without an index and without doing it.
            "PIP_DRY_RUN": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    @classmethod
    @contextmanager
    def open(cls, directory: Path, url: str) -> Iterator[Session]:
        """A session whose programs end with it."""
        session = cls(directory, url)
        try:
            yield session
        finally:
            session.end()

    def end(self) -> None:
        """Ends the programs that run in the background."""
        for program in self.programs:
            program.kill()
            program.wait()

    def run(self, language: str, source: str, said: str) -> None:
        """Runs one block."""
        verb, _, argument = said.partition(" ")
        if verb == "skip,":
            return
        if verb == "file":
            (self.directory / argument).write_text(source)
        if language == "console":
            self._console(source, int(argument) if verb == "exit" else 0)
            return
        source = self._real(source)
        if language == "sh":
            for chunk in _chunks(source):
                self._command(chunk, 0)
        elif language == "python":
            self._python(source, forever=verb == "forever")
        elif language == "toml":
            self._toml(source)
        elif language == "json":
            self._json(source)

    def _real(self, text: str) -> str:
        """The text with this session's server, and real ids for those in the document."""
        text = text.replace("127.0.0.1:6379", self.url.removeprefix("redis://").partition("/")[0])
        return re.sub(_ID, lambda found: self.ids.get(found[0], found[0]), text)

    def _command(self, text: str, code: int) -> str:
        if _BACKGROUND.match(text):
            self._start(text)
            return ""
        place = self.directory / ".environment"
        script = f"trap 'env -0 >{place}' EXIT\nset -e\n{text}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        printed = done.stdout.decode()
        assert done.returncode == code, f"{text}\nended with {done.returncode}:\n{printed}"
        pairs = [line.partition("=") for line in place.read_text().split("\0") if line]
        self.environment = {name: value for name, _, value in pairs}
        self._settle()
        return printed

    def _console(self, source: str, code: int) -> None:
        commands: list[tuple[str, str]] = []
        for line in source.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], ""))
            elif line.startswith("> ") and commands and not commands[-1][1]:
                commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", "")
            else:
                commands[-1] = (commands[-1][0], f"{commands[-1][1]}{line}\n")
        for index, (command, shown) in enumerate(commands):
            printed = self._command(self._real(command), code if index == len(commands) - 1 else 0)
            if shown.strip():
                self._compare(command, self._real(shown), printed)

    def _compare(self, command: str, shown: str, printed: str) -> None:
        groups: dict[str, str] = {}
        pattern, at = "", 0
        for found in _VARIES.finditer(text := shown.strip()):
            pattern += re.escape(text[at : found.start()])
            at = found.end()
            match found.lastgroup:
                case "any":
                    pattern += ".*?"
                case "id" if found[0] in self.ids.values():
                    pattern += re.escape(found[0])
                case "id" if found[0] in groups:
                    pattern += f"(?P={groups[found[0]]})"
                case "id":
                    groups[found[0]] = f"id{len(groups)}"
                    pattern += f"(?P<{groups[found[0]]}>{_ID})"
                case "time":
                    pattern += r"[-0-9T:.]+(?: [0-9:.]+)?Z?"
                case "run":
                    pattern += r"[0-9a-f]{16}"
                case "span":
                    pattern += r"[0-9.]+ (?:ms|s|min)"
                case _:
                    pattern += r"\s+"
        pattern += re.escape(text[at:])
        matched = re.fullmatch(pattern, printed.strip(), re.DOTALL)
        assert matched, f"$ {command}\nprints\n{printed}\nthe document shows\n{shown}"
        self.ids.update({shown_id: matched[group] for shown_id, group in groups.items()})

    def _start(self, text: str) -> None:
        log = self.directory / f".log-{len(self.programs)}"
        environment = {**self.environment, "RATINGS_LOG_FORMAT": "json"}
        with log.open("wb") as file:
            program = subprocess.Popen(
                ["bash", "-c", f"exec env {text}"],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.programs.append(program)
        deadline = time.monotonic() + _PATIENCE
        while b'"rating' not in log.read_bytes():
            assert program.poll() is None and time.monotonic() < deadline, f"{text}:\n{log.read_text()}"
            time.sleep(0.02)

    def _settle(self) -> None:
        """Waits until the workers have rated what was sent, as a reader would for a moment."""
        if not any(program.poll() is None for program in self.programs):
            return
        deadline = time.monotonic() + 10
        with redis.Redis.from_url(self.url) as client:
            while any(client.xlen(key) for key in client.scan_iter(match="ratings:*:match-finished")):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.02)

    def _python(self, source: str, *, forever: bool) -> None:
        program = subprocess.Popen(
            [sys.executable, "-c", source],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            printed, _ = program.communicate(timeout=3 if forever else 60)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGTERM if forever else signal.SIGKILL)
            printed, _ = program.communicate()
            assert forever, f"it does not end:\n{source}\n{printed.decode()}"
        else:
            assert program.returncode == 0 and not forever, f"{source}\n{printed.decode()}"
        self._settle()

    def _toml(self, source: str) -> None:
        if "ladders" in tomllib.loads(source):
            path = self.directory / ".ladders.toml"
            path.write_text(source)
            load_ladders(path)

    def _json(self, source: str) -> None:
        try:
            values: list[Any] = [json.loads(source)]
        except ValueError:
            values = [json.loads(line) for line in source.splitlines()]
        for value in values:
            if isinstance(value, dict) and "cause" in value:
                RatingUpdated.model_validate_json(json.dumps(value))


def _chunks(source: str) -> Iterator[str]:
    """A script cut where a program goes into the background."""
    lines: list[str] = []
    for line in source.splitlines():
        if _BACKGROUND.match(line):
            if lines:
                yield "\n".join(lines)
            lines = []
            yield line
        else:
            lines.append(line)
    if lines:
        yield "\n".join(lines)
