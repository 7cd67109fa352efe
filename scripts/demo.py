"""The demo: a server of its own, real workers, and this program as match server, lobby and spectator.

Little is imported here, so that Ctrl-C is taken well from the start.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.main import get_command

_WRONG_USAGE, _BROKEN_PIPE = 2, 141

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Stopped(KeyboardInterrupt):
    """A signal asks for the end."""


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
    from demo_stage import perform

    return perform(matches, workers, seed)


def main() -> int:
    """Runs the demo for this process's arguments and returns the exit code."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        signal.raise_signal(signal.SIGINT)  # which asyncio knows how to take

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with get_command(app).make_context("demo", sys.argv[1:]) as context:
            code: int = context.command.invoke(context)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + (stopped or [signal.SIGINT])[0]
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of this process
        return _BROKEN_PIPE
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # the library's class for wrong usage is not public
            raise
        return _wrong_usage(error)
    return code


def _wrong_usage(error: Any) -> int:
    text = error.format_message().rstrip(".")
    print(f"demo: {text[:1].lower()}{text[1:]} (see scripts/demo --help)", file=sys.stderr)
    return _WRONG_USAGE


if __name__ == "__main__":
    sys.exit(main())
