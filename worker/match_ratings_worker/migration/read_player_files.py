"""Parses a file of JSON lines, or of CSV, line by line; a wrong line is reported with its number."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from match_ratings_worker.safe_text import quote
from match_ratings_worker.text_lines import LONGEST_LINE, numbered_lines

from .player_records import InvalidLine

T = TypeVar("T")


class ParsedLine(NamedTuple, Generic[T]):
    """A line that is not empty."""

    #: Counted from 1; of a row over several lines the last.
    number: int
    #: None for a wrong line.
    value: T | None
    problem: str
    #: Bytes of the file read so far.
    read: int


def json_lines(source: BinaryIO, parse: Callable[[bytes], T]) -> Iterator[ParsedLine[T]]:
    """Each line, parsed by `parse`, which raises InvalidLine."""
    for number, raw, read in numbered_lines(source):
        if len(raw) > LONGEST_LINE:
            yield ParsedLine(number, None, f"more than {LONGEST_LINE} bytes", read)
        elif stripped := raw.strip():
            yield _parsed(number, parse, stripped, read)


def csv_lines(
    source: BinaryIO, parse: Callable[[Mapping[str, str]], T], names: Sequence[str], required: Sequence[str]
) -> Iterator[ParsedLine[T]]:
    """Each row below the titles, parsed from its cells by title, empty ones left out.

    Stops after wrong titles, and after an error that hides where the next row begins.
    """
    read = number = 0

    def texts() -> Iterator[str]:
        nonlocal read, number
        for number_now, raw, read_now in numbered_lines(source):
            number, read = number_now, read_now
            if len(raw) > LONGEST_LINE:
                msg = f"more than {LONGEST_LINE} bytes"
                raise csv.Error(msg)
            yield raw.decode("utf-8", "surrogateescape")

    csv.field_size_limit(LONGEST_LINE)
    rows = csv.reader(texts(), strict=True)
    try:
        titles = [title.strip() for title in next(rows, [])]
        if problem := _wrong_titles(titles, names, required):
            yield ParsedLine(max(rows.line_num, 1), None, problem, read)
            return
        for row in rows:
            if not row:
                continue
            if len(row) != len(titles):
                problem = f"{len(row)} cells; the titles are {len(titles)}"
                yield ParsedLine(rows.line_num, None, problem, read)
                continue
            cells = {title: cell for title, cell in zip(titles, row, strict=True) if cell}
            yield _parsed(rows.line_num, parse, cells, read)
    except csv.Error as error:
        yield ParsedLine(number, None, f"not CSV: {error}", read)


A = TypeVar("A")


def _parsed(number: int, parse: Callable[[A], T], given: A, read: int) -> ParsedLine[T]:
    try:
        return ParsedLine(number, parse(given), "", read)
    except InvalidLine as error:
        return ParsedLine(number, None, str(error), read)


def _wrong_titles(titles: list[str], names: Sequence[str], required: Sequence[str]) -> str:
    for title in titles:
        if title not in names:
            return f"{quote(title)} is not a column of this system's players; known are {', '.join(names)}"
        if titles.count(title) > 1:
            return f"there are two columns {title}"
    missing = [name for name in required if name not in titles]
    return f"there is no column {missing[0]}" if missing else ""
