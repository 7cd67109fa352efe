"""Show on a terminal that a command is working, and how much of its work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

#: Gets the current step, how much of it is done, and its total (None: not known).
ProgressCallback = Callable[[str, int, int | None], None]


@contextmanager
def spinner(step: str) -> Iterator[None]:
    """Show that a step of unknown length is running."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(step):
        yield


@contextmanager
def progress_bar(*, in_bytes: bool = False, visible: bool = True) -> Iterator[ProgressCallback]:
    """Show one line on standard error for the current step; yield the function that updates it."""
    if not visible or not sys.stderr.isatty():
        yield lambda step, done, total: None
        return
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn()
    # The results go to standard output, wherever that leads.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        current = ""

        def update(step: str, done: int, total: int | None) -> None:
            nonlocal current
            if step != current:  # each step has a speed of its own
                bar.reset(task, description=step, total=total)
                current = step
            bar.update(task, completed=done, total=total)

        yield update
