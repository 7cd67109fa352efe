"""Print results and notes: tables, fields, headings, JSON lines; format numbers and times for them.

Results go to standard output, notes and errors to standard error. On a terminal tables are made by
rich; elsewhere they are plain columns, nothing is shortened, and there are no colours. Every text is
passed through `printable`, so that nothing from a message can act on a terminal or hide in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from match_ratings_worker.safe_text import printable
from match_ratings_worker.time_units import DAY_MS


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    #: A style of rich, for a terminal.
    style: str = ""


class Table:
    """A table that is printed page by page, so that its length does not matter."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._widths = [0] * len(columns)
        self._started = False

    def add(self, rows: Iterable[Sequence[str]]) -> None:
        """Print rows; the titles precede the first."""
        cells = [[_printable(cell) for cell in row] for row in rows]
        if not cells and self._started:
            return
        if sys.stdout.isatty():
            self._add_rich(cells)
        else:
            self._add_plain(cells)
        self._started = True

    def _add_rich(self, rows: list[list[str]]) -> None:
        table = RichTable(
            box=None, show_header=not self._started, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0)
        )
        self._widen(rows)
        for column, width in zip(self._columns, self._widths, strict=True):
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                style=column.style,
                overflow="fold",
                min_width=min(width, 20),
            )
        for row in rows:
            table.add_row(*map(Text, row))
        _rich_console().print(table)

    def _add_plain(self, rows: list[list[str]]) -> None:
        if not self._started:
            rows.insert(0, [column.title for column in self._columns])
        self._widen(rows)
        for row in rows:
            cells = []
            for cell, width, column in zip(row, self._widths, self._columns, strict=True):
                padding = " " * (width - _cell_width(cell))
                cells.append(padding + cell if column.right else cell + padding)
            print("  ".join(cells).rstrip())

    def _widen(self, rows: list[list[str]]) -> None:
        for index, column in enumerate(self._columns):
            cells = [column.title, *(row[index] for row in rows)]
            self._widths[index] = max(self._widths[index], *map(_cell_width, cells))


def print_fields(pairs: Iterable[tuple[str, str]], indent: int = 2) -> None:
    """Print names and values, one pair on each line."""
    safe = [(name, _printable(value)) for name, value in pairs]
    width = max((len(name) for name, _ in safe), default=0)
    for name, value in safe:
        _print_styled((" " * indent + name.ljust(width + 2), "dim"), (value, ""))


def print_heading(text: str) -> None:
    """Print a line that introduces a table or fields."""
    _print_styled((_printable(text), "bold"))


def print_json(value: dict[str, Any]) -> None:
    """Print an object on one line, everything outside ASCII escaped."""
    print(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f"))


def format_number(value: float | None) -> str:
    """A rating or K: integers in full, other numbers with two decimals."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def format_change(value: float | None) -> str:
    """A change in points, with its sign."""
    if value is None:
        return "-"
    return f"{value:+}" if isinstance(value, int) else f"{value:+.2f}"


def format_time(ms: int | None) -> str:
    """A time in ms as UTC, to the second."""
    if not ms:
        return "-"
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def format_duration(ms: int | None) -> str:
    """A time span in ms, in its largest unit."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms} ms"
    for size, unit in ((DAY_MS, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1000:.0f} s"


def _print_styled(*parts: tuple[str, str]) -> None:
    if not sys.stdout.isatty():
        print("".join(text for text, _ in parts).rstrip())
        return
    _rich_console().print(Text.assemble(*parts), soft_wrap=True)


def _printable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else printable(text)


def _cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    return cell_len(text)


def _rich_console() -> Console:
    return Console(markup=False, emoji=False, highlight=False)
