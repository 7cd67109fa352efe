"""What a demo looks like while it runs: moving on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from contracts import Cause, PlayerUpdate, RatingUpdated

__all__ = ["Figures", "LiveScreen", "PlainScreen", "Screen", "is_terminal"]

#: Rating updates that are on a terminal at the same time.
_ROWS = 10
#: Seconds between two lines of progress where there is no terminal.
_EVERY = 3.0


@dataclass(slots=True)
class Figures:
    """How far a demo is."""

    matches: int
    #: Seconds since the first message.
    seconds: float = 0.0
    #: Matches sent.
    sent: int = 0
    #: Messages sent and settled, all kinds.
    messages: int = 0
    settled: int = 0
    #: Messages settled in a second, lately.
    speed: float = 0.0
    #: Worker number -> what it is doing.
    workers: dict[int, str] = field(default_factory=dict)


class Screen(Protocol):
    """Shows a running demo."""

    def say(self, text: str) -> None:
        """Something that happened."""

    def updated(self, event: RatingUpdated) -> None:
        """Ratings that changed."""

    def show(self, figures: Figures) -> None:
        """The state of things, some times a second."""

    def running(self) -> AbstractContextManager[object]:
        """The time in which `show` is called."""


def is_terminal() -> bool:
    """Whether standard output is a terminal that can move the cursor."""
    return sys.stdout.isatty() and not Console().is_dumb_terminal


class PlainScreen:
    """Lines of text, one every few seconds."""

    def __init__(self) -> None:
        self._figures = Figures(0)
        self._next = _EVERY
        self._event: RatingUpdated | None = None

    def say(self, text: str) -> None:
        print(f"{self._figures.seconds:5.1f} s  {text}", flush=True)

    def updated(self, event: RatingUpdated) -> None:
        self._event = event

    def show(self, figures: Figures) -> None:
        self._figures = figures
        if figures.seconds < self._next:
            return
        self._next = figures.seconds + _EVERY
        waiting = figures.messages - figures.settled
        self.say(
            f"{figures.sent:,} of {figures.matches:,} matches sent, {figures.speed:,.0f}/s, {waiting:,} waiting"
        )
        if self._event is not None:
            print(f"         latest: {_sentence(self._event)}", flush=True)

    def running(self) -> AbstractContextManager[object]:
        return self

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
