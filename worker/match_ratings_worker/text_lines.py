"""Read the numbered lines of a file or stream, with bounded memory; a byte order mark is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

#: Bytes of the longest line that is accepted; the largest message is far below.
LONGEST_LINE: Final = 1024 * 1024
#: Bytes requested at once.
_READ_SIZE: Final = 128 * 1024
#: Lines in a batch, at most.
_BATCH_SIZE: Final = 500

_BOM: Final = b"\xef\xbb\xbf"


class Stream(Protocol):
    """A binary stream whose `read1` returns what is available, and waits only when nothing is."""

    def read1(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class BinaryFile(Protocol):
    """A binary file."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, at most `limit` bytes of it; nothing at the end."""


class Line(NamedTuple):
    """A line that is not empty."""

    #: Counted from 1, empty lines included.
    number: int
    #: Without the line's end; None for a line longer than `LONGEST_LINE`.
    raw: bytes | None


class LineBatch(NamedTuple):
    """Some lines, and the number of bytes read so far."""

    lines: list[Line]
    read: int


def line_batches(stream: Stream) -> Iterator[LineBatch]:
    """The lines of a stream as soon as they are available; empty ones are left out."""
    number, read, rest, too_long = 0, 0, b"", False
    while True:
        chunk = stream.read1(_READ_SIZE)
        if not read:
            chunk = chunk.removeprefix(_BOM)
        read += len(chunk)
        parts = (rest + chunk).split(b"\n")
        if chunk:
            rest = parts.pop()
        elif not parts[0] and not too_long:
            return
        found = []
        for part in parts:
            number += 1
            raw = part.removesuffix(b"\r")
            if too_long or len(raw) > LONGEST_LINE:
                found.append(Line(number, None))
            elif raw.strip():
                found.append(Line(number, raw))
            too_long = False
        if len(rest) > LONGEST_LINE:
            rest, too_long = b"", True
        for start in range(0, len(found), _BATCH_SIZE):
            yield LineBatch(found[start : start + _BATCH_SIZE], read)
        if not chunk:
            return


def numbered_lines(file: BinaryFile) -> Iterator[tuple[int, bytes, int]]:
    """Number, bytes with the line's end, and bytes read so far, of every line.

    Of a line longer than `LONGEST_LINE` only the beginning is returned, one byte more than that.
    """
    number = read = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number, read = number + 1, read + len(raw)
        if number == 1:
            raw = raw.removeprefix(_BOM)
        yield number, raw, read
        rest = raw
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE + 1)
            read += len(rest)
