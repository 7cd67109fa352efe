"""The demo's command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

__all__ = ["run"]

_WRONG_USAGE = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def demo(
    matches: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many matches.")] = 3000,
    workers: Annotated[int, typer.Option(min=1, max=16, metavar="N", help="How many worker processes.")] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed makes other matches.")] = 1,
) -> int:
    """Play six days of a backgammon site into real workers on a server of their own, and show what comes out.

    With two workers or more, one of them is killed in the middle. Nothing is left behind.
    Exit codes: 0 it all adds up; 1 it does not; 2 wrong options; 130 Ctrl-C.
    """
    from demonstration.stage import perform

    return perform(matches, workers, seed)


def run(arguments: Sequence[str]) -> int:
    """Runs the demo and returns the exit code; what is wrong with the options is one line."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with get_command(app).make_context("demo", list(arguments)) as context:
            return int(context.command.invoke(context))
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # the library's class for wrong usage is not public
            raise
        text = error.format_message().rstrip(".")
        print(f"demo: {text[:1].lower()}{text[1:]} (see scripts/demo --help)", file=sys.stderr)
        return _WRONG_USAGE
