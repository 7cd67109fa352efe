"""Files that a command reads twice: opened, or copied first where they can be read only once."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from match_ratings_worker.cli.console import note
from match_ratings_worker.cli.installation import WRONG_INPUT, CommandError
from match_ratings_worker.text import quote

__all__ = ["Opened", "Wrong", "opened"]

#: Wrong lines that are reported one by one.
_REPORTED = 20


class Opened(NamedTuple):
    """A file that can be read from its start again."""

    file: BinaryIO
    #: In bytes.
    size: int


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """The file of this name, or standard input for "-"; a pipe is copied to a temporary file."""

    if name == "-":
        if sys.stdin is None:
            raise CommandError("FILE: standard input is closed", WRONG_INPUT)
        with _copied(sys.stdin.buffer) as copy:
            yield copy
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - only opening may be the user's mistake
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"FILE: {quote(name, 200)} cannot be read: {why}", WRONG_INPUT) from None
    with source:
        info = os.fstat(source.fileno())
        if stat.S_ISREG(info.st_mode):
            yield Opened(source, info.st_size)
            return
        with _copied(source) as copy:
            yield copy


@contextmanager
def _copied(source: BinaryIO) -> Iterator[Opened]:
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(source, copy)
        size = copy.tell()
        copy.seek(0)
        yield Opened(copy, size)


class Wrong:
    """Wrong lines: the first few are reported."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []

    def add(self, number: int, problem: str) -> None:
        """Counts a wrong line."""
        self.count += 1
        if self.count <= _REPORTED:
            self._first.append(f"line {number}: {problem}")

    def refuse(self, lines: int, nothing: str) -> None:
        """Raises Fault when any of so many lines was wrong; `nothing` says what was not done."""
        if not self.count:
            return
        if self.count == 1:
            raise CommandError(f"FILE: {self._first[0]}; {nothing}", WRONG_INPUT)
        for problem in self._first:
            note(problem)
        raise CommandError(f"FILE: {self.count} of {lines} lines are wrong; {nothing}", WRONG_INPUT)
