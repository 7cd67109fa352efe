"""The `match-ratings` command: the table of its commands; errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from .exit_codes import EXIT_CODES_HELP, CommandError, ExitCode
from .lazy_group import LazyCommand, lazy_group
from .stderr_notes import print_note

_NAME = "match-ratings"

_COMMANDS: Final = {
    "worker": LazyCommand("worker:worker", "Rate matches until SIGTERM or Ctrl-C."),
    "submit": LazyCommand("submit:submit", "Send matches from a file of JSON lines."),
    "leaderboard": LazyCommand(
        "leaderboard:leaderboard", "Show the highest ratings, or those around a player."
    ),
    "player": LazyCommand("player:player", "Show a player's rating, games, K and last changes."),
    "explain": LazyCommand("explain:explain", "Show how a match changed ratings, or why it did not."),
    "status": LazyCommand("status:status", "Show backlogs, workers, and streams that nobody reads."),
    "dead-letters": LazyCommand(
        "dead_letters:app", "Show, correct and replay messages that could not be rated."
    ),
    "void": LazyCommand("void:void", "Void a match, or the matches of a player who cheated."),
    "audit": LazyCommand("audit:audit", "Replay the ledger and compare it with the stored data."),
    "ladder": LazyCommand("ladder:app", "Show, compare and adopt a ladder's settings."),
    "close-period": LazyCommand("close_period:close_period", "Close the rating periods that are over."),
    "preview": LazyCommand("preview:preview", "Show every outcome of a match before it is played."),
    "period": LazyCommand("period:period", "Rate a list of games, step by step."),
    "performance": LazyCommand("performance:performance", "Compute a performance rating."),
    "calibrate": LazyCommand("calibrate:calibrate", "Compare predictions with results, and fit the divisor."),
    "backtest": LazyCommand("backtest:backtest", "Rate the same matches by other settings, and compare."),
    "systems": LazyCommand("systems:systems", "List the rating systems and their settings."),
    "compare": LazyCommand("compare:compare", "Compare the changes of another rater with these."),
    "shadow": LazyCommand("shadow:app", "Show or clear a ladder's shadow."),
    "archive": LazyCommand("archive:app", "Show the archive of a ledger, or adopt it."),
    "import": LazyCommand("import_players:import_players", "Import the players of another rater."),
    "manual": LazyCommand("manual:manual", "Print the manual, or one of its chapters."),
}

app = typer.Typer(
    name=_NAME,
    cls=lazy_group(_COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Settings come from variables such as RATINGS_REDIS_URL and RATINGS_CONFIG. {EXIT_CODES_HELP}",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        # A third of the start of the command; nothing else needs it.
        from importlib.metadata import version

        print(f"{_NAME} {version(_NAME)}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Rates finished matches from Redis and shows ratings, ledger and dead letters."""


def call(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an error is one line on standard error."""
    try:
        with get_command(app).make_context(_NAME, list(arguments)) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except CommandError as fault:
        return _fail(str(fault), fault.code)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except OSError as error:
        return _no_output(error)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the library's class for wrong usage is not public
            raise
        return _wrong_usage(error)
    return 0


def _fail(text: str, code: int) -> int:
    print_note(f"{_NAME}: {text}")
    return code


def _wrong_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help(), file=sys.stderr)
        return ExitCode.WRONG_INPUT
    text = error.format_message().rstrip(".")
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return _fail(f"{text[:1].lower()}{text[1:]}{hint}", ExitCode.WRONG_INPUT)


def _no_output(error: OSError) -> int:
    """End the command when standard output is broken or full; nothing more is written to it."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of this process
    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    return _fail(f"standard output: {error.strerror}", ExitCode.FAILED)


def main() -> NoReturn:
    """Run the installed command; exit with its code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed beforehand
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for the whole process
        getattr(sys, name).reconfigure(errors="backslashreplace")
    sys.exit(call(sys.argv[1:]))
