"""What the commands print: JSON lines, tables, fields and notes.

Results go to standard output, notes and errors to standard error. On a terminal tables are made by
rich; elsewhere they are plain columns, nothing is shortened, and there are no colours. Every text is
passed through `printable`, so that nothing from a message can act on a terminal or hide in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from match_ratings_worker.text import printable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Column",
    "Sheet",
    "fields",
    "busy",
    "duration",
    "heading",
    "moment",
    "note",
    "number",
    "progress",
    "print_json",
    "signed",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    #: How it looks on a terminal, in rich's words.
    style: str = ""


class Sheet:
    """A table that is printed page by page, so that it may be as long as it likes."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._widths = [0] * len(columns)
        self._started = False

    def add(self, rows: Iterable[Sequence[str]]) -> None:
        """Prints rows, below the titles if they are the first."""
        safe = [[_safe(cell) for cell in row] for row in rows]
        if not safe and self._started:
            return
        if sys.stdout.isatty():
            self._add_rich(safe)
        else:
            self._add_plain(safe)
        self._started = True

    def _add_rich(self, rows: list[list[str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None, show_header=not self._started, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0)
        )
        self._grow(rows)
        for column, width in zip(self._columns, self._widths, strict=True):
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                style=column.style,
                overflow="fold",
                min_width=min(width, 20),
            )
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        _console().print(table)

    def _add_plain(self, rows: list[list[str]]) -> None:
        if not self._started:
            rows.insert(0, [column.title for column in self._columns])
        self._grow(rows)
        for row in rows:
            cells = [
                _pad(cell, width, right=column.right)
                for cell, width, column in zip(row, self._widths, self._columns, strict=True)
            ]
            print("  ".join(cells).rstrip())

    def _grow(self, rows: list[list[str]]) -> None:
        for index, column in enumerate(self._columns):
            cells = [column.title, *(row[index] for row in rows)]
            self._widths[index] = max(self._widths[index], *map(_width, cells))


def fields(pairs: Iterable[tuple[str, str]], indent: int = 2) -> None:
    """Prints names and values below each other."""
    safe = [(name, _safe(value)) for name, value in pairs]
    width = max((len(name) for name, _ in safe), default=0)
    for name, value in safe:
        _line((" " * indent + name.ljust(width + 2), "dim"), (value, ""))


def heading(text: str) -> None:
    """Prints a line above something."""
    _line((_safe(text), "bold"))


def print_json(value: dict[str, Any]) -> None:
    """Prints an object on one line, everything outside ASCII escaped."""
    print(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f"))


def note(text: str) -> None:
    """Prints a remark on standard error, if that still takes any."""
    with suppress(OSError):
        print(_safe(text), file=sys.stderr, flush=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Shows on a terminal that something goes on that may take some time."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def progress(what: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how many of `size` bytes (None: not known) are done; it yields what to tell."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=size)
        yield lambda done: bar.update(task, completed=done)


def number(value: float | None) -> str:
    """A rating or K: whole as it is, otherwise with two decimals."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def signed(value: float | None) -> str:
    """A change, with its sign."""
    if value is None:
        return "-"
    return f"{value:+}" if isinstance(value, int) else f"{value:+.2f}"


def moment(ms: int | None) -> str:
    """A time in ms as UTC, to the second."""
    if not ms:
        return "-"
    seconds = ms // 1000
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def duration(ms: int | None) -> str:
    """A time span of so many ms in its largest unit."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms} ms"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1000:.0f} s"


def _line(*parts: tuple[str, str]) -> None:
    if not sys.stdout.isatty():
        print("".join(text for text, _ in parts).rstrip())
        return
    from rich.text import Text

    line = Text(no_wrap=False)
    for text, style in parts:
        line.append(text, style)
    _console().print(line, soft_wrap=True)


@cache
def _printable() -> Any:

    return printable


def _safe(text: str) -> str:
    return text if text.isascii() and text.isprintable() else str(_printable()(text))


def _width(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)
