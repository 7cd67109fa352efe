"""What a demo looks like while it runs: moving on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from match_ratings import Cause, PlayerUpdate, RatingUpdated

__all__ = ["Figures", "LiveScreen", "PlainScreen", "Screen"]

#: Rating updates that are on a terminal at the same time.
_ROWS = 10
#: Seconds between two lines of progress where there is no terminal.
_EVERY = 3.0


@dataclass(slots=True)
class Figures:
    """How far a demo is."""

    #: Matches in all, and sent so far.
    matches: int
    sent: int = 0
    #: Messages of all kinds sent and settled so far.
    messages: int = 0
    settled: int = 0
    #: Messages settled in a second, lately.
    speed: float = 0.0
    #: Seconds since the first message.
    seconds: float = 0.0
    #: For each worker, what it is doing.
    workers: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return max(self.messages - self.settled, 0)


class Screen(Protocol):
    """Shows a running demo."""

    def running(self) -> AbstractContextManager[object]:
        """The time in which the others are called."""

    def say(self, text: str) -> None:
        """Something happened."""

    def updated(self, event: RatingUpdated) -> None:
        """Ratings changed."""

    def show(self, figures: Figures) -> None:
        """The state of things; called some times a second."""


class PlainScreen:
    """Lines of text, one every few seconds."""

    def __init__(self) -> None:
        self._figures = Figures(0)
        self._next = _EVERY
        self._latest: RatingUpdated | None = None

    def running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def say(self, text: str) -> None:
        print(f"{self._figures.seconds:6.1f} s  {text}", flush=True)

    def updated(self, event: RatingUpdated) -> None:
        self._latest = event

    def show(self, figures: Figures) -> None:
        self._figures = figures
        if figures.seconds < self._next:
            return
        self._next = figures.seconds + _EVERY
        self.say(
            f"{figures.sent:,} of {figures.matches:,} matches sent, "
            f"{figures.speed:,.0f} messages/s, {figures.waiting:,} waiting"
        )
        if self._latest is not None:
            cells = [cell.plain for cell in _cells(self._latest) if cell.plain]
            print(f"{'':10}latest: {', '.join(cells)}", flush=True)


class LiveScreen:
    """Bars, rating updates streaming by, and what the workers do, in place."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._rows: deque[RatingUpdated] = deque(maxlen=_ROWS)
        self._latest: RatingUpdated | None = None
        self._figures = Figures(0)

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._live:
            yield
            self._live.update(self._frame(), refresh=True)

    def say(self, text: str) -> None:
        self._console.print(Text(f"{self._figures.seconds:6.1f} s  ", "dim").append(text, "bold yellow"))

    def updated(self, event: RatingUpdated) -> None:
        self._latest = event

    def show(self, figures: Figures) -> None:
        self._figures = figures
        # Of hundreds in a second, as many stream by as an eye can follow.
        if self._latest is not None:
            self._rows.append(self._latest)
            self._latest = None
        self._live.update(self._frame(), refresh=True)

    def _frame(self) -> RenderableType:
        figures = self._figures
        bars = Table.grid(padding=(0, 1))
        settled = figures.sent * figures.settled // max(figures.messages, 1)
        for name, done in (("sent", figures.sent), ("rated", settled)):
            bar = ProgressBar(figures.matches, done, 36, complete_style="cyan", finished_style="green")
            note = f"{figures.speed:,.0f}/s, {figures.waiting:,} waiting" if name == "rated" else ""
            bars.add_row(name, bar, f"{done:,} of {figures.matches:,}", Text(note, "cyan"))
        updates = Table.grid(padding=(0, 2))
        for width in (10, 23, 23):
            updates.add_column(min_width=width, no_wrap=True)
        for event in self._rows:
            updates.add_row(*_cells(event))
        for _ in range(_ROWS - len(self._rows)):
            updates.add_row("")
        workers = Text("  ").join(
            Text(f"worker {number} ").append(state, _COLOURS.get(state, "yellow"))
            for number, state in enumerate(figures.workers, 1)
        )
        return Group("", bars, "", updates, "", workers)


_COLOURS = {"rating": "green", "killed": "bold red"}


def _cells(event: RatingUpdated) -> list[Text]:
    """A rating update in a row's cells, the winner first."""
    players = sorted(event.players, key=lambda part: -part.change)
    cells = [Text(event.match_id or event.tournament_id or "", "dim"), *map(_change, players)]
    if event.cause is Cause.MATCH:
        ks = "/".join(dict.fromkeys(f"{part.k:g}" for part in players if part.k is not None))
        cells += [Text(f"cube {event.cube}"), Text(f"K {ks}", "" if ks == "32" else "magenta")]
    return cells


def _change(part: PlayerUpdate) -> Text:
    name = part.player if len(part.player) <= 12 else part.player[:11] + "…"
    text = Text(f"{name} {part.after:g} ", no_wrap=True)
    return text.append(
        f"{part.change:+g}", "green" if part.change > 0 else "red" if part.change < 0 else "dim"
    )
