"""Reads a stream of lines in batches: what is there at once, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

__all__ = ["LONGEST", "Batch", "Line", "batches"]

#: Bytes of the longest line that is kept; the largest message is far below.
LONGEST: Final = 1024 * 1024
#: Bytes that are asked for at once.
_READ: Final = 128 * 1024
#: Lines in a batch, at most.
_LINES: Final = 500

_BOM: Final = b"\xef\xbb\xbf"


class Source(Protocol):
    """A binary stream whose `read1` returns what is there, and waits only when nothing is."""

    def read1(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class Line(NamedTuple):
    """A line with something on it."""

    #: Counted from 1, empty lines included.
    number: int
    #: Without the line's end; None for a line longer than `LONGEST`.
    raw: bytes | None


class Batch(NamedTuple):
    """Some lines, and how many bytes have been read so far."""

    lines: list[Line]
    read: int


def batches(source: Source) -> Iterator[Batch]:
    """The lines of a stream, as soon as they are there; empty ones are left out."""
    number, read, rest, too_long = 0, 0, b"", False
    while True:
        chunk = source.read1(_READ)
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
            if too_long or len(raw) > LONGEST:
                found.append(Line(number, None))
            elif raw.strip():
                found.append(Line(number, raw))
            too_long = False
        if len(rest) > LONGEST:
            rest, too_long = b"", True
        for start in range(0, len(found), _LINES):
            yield Batch(found[start : start + _LINES], read)
        if not chunk:
            return
