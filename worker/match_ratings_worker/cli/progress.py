"""Shows on a terminal how far something has come that is done in several steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Tell", "steps"]

#: Told what is being done, how much of it is done, and how much there is.
Tell = Callable[[str, int, int], None]


@contextmanager
def steps(*, wanted: bool = True) -> Iterator[Tell]:
    """One line on standard error for the step that is going on; it yields what to tell."""
    if not wanted or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    # What is printed meanwhile goes to standard output, wherever that leads.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        shown = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal shown
            if what != shown:  # its speed is not that of the step before
                bar.reset(task, description=what, total=total)
                shown = what
            bar.update(task, completed=done, total=total)

        yield tell
