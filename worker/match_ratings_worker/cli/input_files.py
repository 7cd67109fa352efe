"""Open the files that a command reads, and report the lines that are wrong."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple, cast

from match_ratings_worker.safe_text import quote

from .exit_codes import CommandError, ExitCode
from .stderr_notes import print_note

#: Wrong lines that are reported one by one.
_MAX_REPORTED: Final = 20


class InputFile(NamedTuple):
    """A file that can be read from its start again."""

    file: BufferedReader
    #: In bytes.
    size: int


class InputStream(NamedTuple):
    """A file, or a stream that can be read only once."""

    file: BufferedReader
    #: In bytes; None for a stream that can be read only once.
    size: int | None


@contextmanager
def open_stream(name: str) -> Iterator[InputStream]:
    """Open the file of this name, or standard input for "-"."""
    if name == "-":
        if sys.stdin is None:
            raise CommandError("FILE: standard input is closed", ExitCode.WRONG_INPUT)
        yield InputStream(cast(BufferedReader, sys.stdin.buffer), None)
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - only opening may be the user's mistake
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        text = f"FILE: {quote(name, 200)} cannot be read: {why}"
        raise CommandError(text, ExitCode.WRONG_INPUT) from None
    with source:
        info = os.fstat(source.fileno())
        yield InputStream(source, info.st_size if stat.S_ISREG(info.st_mode) else None)


@contextmanager
def open_input(name: str) -> Iterator[InputFile]:
    """Open the file of this name, or standard input for "-"; a pipe is copied to a temporary file."""
    with open_stream(name) as source:
        if source.size is not None:
            yield InputFile(source.file, source.size)
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(source.file, copy)
            size = copy.tell()
            copy.seek(0)
            yield InputFile(cast(BufferedReader, copy), size)


class InvalidLines:
    """The wrong lines of a file: all are counted, the first few are reported."""

    def __init__(self, prefix: str = "FILE: ") -> None:
        self.count = 0
        #: Begins the sentence on a single wrong line.
        self._prefix = prefix
        self._first: list[str] = []

    def add(self, number: int, problem: str) -> None:
        """Count a wrong line."""
        self.count += 1
        if self.count <= _MAX_REPORTED:
            self._first.append(f"line {number}: {problem}")

    def refuse(self, lines: int, consequence: str) -> None:
        """Raise CommandError if any of the `lines` lines was wrong; `consequence` ends its sentence."""
        if not self.count:
            return
        if self.count == 1:
            raise CommandError(f"{self._prefix}{self._first[0]}; {consequence}", ExitCode.WRONG_INPUT)
        for problem in self._first:
            print_note(problem)
        text = f"FILE: {self.count} of {lines} lines are wrong; {consequence}"
        raise CommandError(text, ExitCode.WRONG_INPUT)
