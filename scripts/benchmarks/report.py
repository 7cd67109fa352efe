"""What a part of the benchmark found: rows of figures, targets and notes; as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["Column", "Section", "Spread", "Target", "print_section", "print_targets"]


class Spread:
    """A figure that was measured several times."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = tuple(values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __truediv__(self, other: Spread) -> float:
        return self.median / other.median

    def as_json(self) -> dict[str, float]:
        values = self.values
        return {"median": self.median, "low": min(values), "high": max(values), "runs": len(values)}


class Column(NamedTuple):
    """A column of a table: a row's key, the heading, and how many decimals numbers have."""

    key: str
    heading: str
    decimals: int = 0


class Target(NamedTuple):
    """What was to be reached, and what was measured."""

    name: str
    wanted: str
    figure: float
    reached: bool
    note: str = ""
    #: Whether it is about wrong results, not about speed: then the run fails.
    vital: bool = False


@dataclass
class Section:
    """A table of figures; a row's values are texts, numbers, spreads or None."""

    title: str
    columns: Sequence[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        rows = [
            {key: value.as_json() if isinstance(value, Spread) else value for key, value in row.items()}
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "notes": self.notes}


def _cell(value: Any, decimals: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, Spread):
        return f"{value:,.{decimals}f}"
    shown = f"{value.median:,.{decimals}f}"
    if len(value.values) == 1:
        return shown
    return f"{shown} ({min(value.values):,.{decimals}f}–{max(value.values):,.{decimals}f})"


def print_section(console: Console, section: Section) -> None:
    table = Table(title=section.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(section.columns):
        table.add_column(column.heading, justify="right" if number else "left", no_wrap=not number)
    for row in section.rows:
        table.add_row(*(_cell(row.get(column.key), column.decimals) for column in section.columns))
    console.print(table)
    for note in section.notes:
        console.print(f"  {note}", highlight=False, markup=False)
    if section.notes:
        console.print()


def print_targets(console: Console, targets: Sequence[Target]) -> None:
    if not targets:
        return
    table = Table(title="Targets", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, heading in enumerate(("", "wanted", "measured", "", "")):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=not number)
    for target in targets:
        verdict = "[green]reached[/]" if target.reached else "[red]not reached[/]"
        table.add_row(target.name, target.wanted, f"{target.figure:,.2f}", verdict, target.note)
    console.print(table)
