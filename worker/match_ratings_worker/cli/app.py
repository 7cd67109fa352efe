"""The command line: match-ratings. Puts the commands together and turns what goes wrong into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from match_ratings_worker.cli.commands import (
    archive,
    audit,
    backtest,
    calibrate,
    close_period,
    compare,
    explain,
    import_players,
    ladder,
    manual,
    period,
    preview,
    shadow,
    status,
    submit,
    systems,
    void,
)
from match_ratings_worker.cli.commands import dead_letters_list as dead_letters
from match_ratings_worker.cli.commands import leaderboard as show
from match_ratings_worker.cli.commands import worker as serve
from match_ratings_worker.cli.console import note
from match_ratings_worker.cli.installation import (
    BROKEN_PIPE,
    EXIT_CODES,
    INTERRUPTED,
    NOT_WRITTEN,
    WRONG_INPUT,
    CommandError,
)

__all__ = ["app", "call", "main"]

_NAME = "match-ratings"

app = typer.Typer(
    name=_NAME,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Settings come from variables such as RATINGS_REDIS_URL and RATINGS_CONFIG. {EXIT_CODES}",
)


def _print_version(wanted: bool) -> None:
    if wanted:
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


app.command("worker", short_help="Rate matches until told to stop.")(serve.worker)
app.command(short_help="Send matches from a file of JSON lines.")(submit.submit)
app.command(short_help="Show the highest ratings, or those around a player.")(show.leaderboard)
app.command(short_help="Show a player's rating, games, K and last changes.")(show.player)
app.command(short_help="Show how a match changed ratings, or why it did not.")(explain.explain)
app.command(short_help="Show what waits, who works, and what nobody reads.")(status.status)
app.add_typer(dead_letters.app, name="dead-letters")
app.command(short_help="Take back a match, or those of a player who cheated.")(void.void)
app.command(short_help="Replay the ledger and compare it with what is stored.")(audit.audit)
app.add_typer(ladder.app, name="ladder")
app.command("close-period", short_help="End the rating periods that are over.")(close_period.close_period)
app.command(short_help="Show what a match would change, every outcome side by side.")(preview.preview)
app.command(short_help="Show what a list of games comes to, step by step.")(period.period)
app.command(short_help="Show a performance rating.")(period.performance)
app.command(short_help="Show how well predictions fit results, and the divisor that fits best.")(
    calibrate.calibrate
)
app.command(short_help="Rate the same matches by other settings, and compare.")(backtest.backtest)
app.command(short_help="Show the rating systems and their settings.")(systems.systems)
app.command(short_help="Show where another rater's changes and these disagree.")(compare.compare)
app.add_typer(shadow.app, name="shadow")
app.add_typer(archive.app, name="archive")
app.command(short_help="Print the manual, or one of its chapters.")(manual.manual)
app.command("import", short_help="Bring the players of another rater over.")(import_players.import_players)


def call(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; what went wrong is one line on standard error."""
    try:
        with get_command(app).make_context(_NAME, list(arguments)) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except CommandError as fault:
        return _fail(str(fault), fault.code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as error:
        return _no_output(error)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the library's class for wrong usage is not public
            raise
        return _wrong_usage(error)
    return 0


def _fail(text: str, code: int) -> int:
    note(f"{_NAME}: {text}")
    return code


def _wrong_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help(), file=sys.stderr)
        return WRONG_INPUT
    text = error.format_message().rstrip(".")
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return _fail(f"{text[:1].lower()}{text[1:]}{hint}", WRONG_INPUT)


def _no_output(error: OSError) -> int:
    """The end when standard output takes no more; it is not written to again."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of this process
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    return _fail(f"standard output: {error.strerror}", NOT_WRITTEN)


def main() -> NoReturn:
    """What the installed command runs."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed beforehand
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for the whole process
        getattr(sys, name).reconfigure(errors="backslashreplace")
    sys.exit(call(sys.argv[1:]))
