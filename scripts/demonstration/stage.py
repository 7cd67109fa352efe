"""Sets the demo's stage - a server and workers, in a directory of its own - and shows what came out."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from redis.asyncio import Redis
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demonstration.ledger_check import Statement, statements
from demonstration.play import Play
from demonstration.screen import LiveScreen, PlainScreen, Screen
from demonstration.workers import Failure, Worker, crew
from embedded import Server, ServerError
from match_ratings_worker.cli import console
from match_ratings_worker.cli.app import call
from match_ratings_worker.cli.console import Column, print_heading
from match_ratings_worker.cli.exit_codes import ExitCode
from match_ratings_worker.queries import DeadLetterEntry, read_dead_letters

__all__ = ["perform"]

#: What differs from an operator's settings, so that a killed worker's messages and one that keeps failing
#: are dealt with while somebody watches.
_SETTINGS = {"RATINGS_IDLE_SECONDS": "2", "RATINGS_MAX_ATTEMPTS": "4"}
#: Faults that are shown of one statement.
_FAULTS = 5


def perform(matches: int, workers: int, seed: int) -> int:
    """Plays a demo and shows what came out; returns 0 when it all adds up, else 1."""
    directory = Path(tempfile.mkdtemp(prefix="match-ratings-demo-"))
    failed = True
    try:
        failed = not _perform(directory, matches, workers, seed)
    except (KeyboardInterrupt, BrokenPipeError):
        failed = False
        raise
    except (Failure, ServerError, RedisError) as error:
        print(f"demo: {error}", file=sys.stderr)
    finally:
        if failed:
            print(f"demo: the logs of the server and the workers are in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return int(failed)


def _perform(directory: Path, matches: int, workers: int, seed: int) -> bool:
    on_terminal = sys.stdout.isatty() and not Console().is_dumb_terminal
    screen: Screen = LiveScreen() if on_terminal else PlainScreen()
    stored = directory / "server"
    stored.mkdir()
    with Server(stored, appendonly=True) as server:
        for name in [name for name in os.environ if name.startswith("RATINGS_")]:
            del os.environ[name]
        os.environ.update(_SETTINGS, RATINGS_REDIS_URL=server.url)
        print_heading(
            f"match-ratings demo: {_count(matches, 'match')}, {_count(workers, 'worker')}, seed {seed}, "
            f"{server.binary.name} on port {server.port}"
        )
        print(flush=True)
        with (
            crew(workers, directory) as started,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            play, holds, dead = runner.run(_play(server.url, started, screen, matches, seed))
            _show_results(play, holds, dead)
    return not any(statement.faults for statement in holds)


async def _play(
    url: str, workers: list[Worker], screen: Screen, matches: int, seed: int
) -> tuple[Play, list[Statement], list[DeadLetterEntry]]:
    pool = RedisSettings.from_dsn(url)
    async with (
        Redis.from_url(url) as redis,
        await create_pool(pool) as arq,
        await create_pool(pool) as pickling,
    ):
        play = Play(redis, arq, pickling, workers, screen, matches, seed)
        await play.run()
        holds = await statements(redis, play.keys, play.account, play.ledger)
        return play, holds, [letter async for letter in read_dead_letters(redis, play.keys)]


def _show_results(play: Play, holds: Sequence[Statement], dead: Sequence[DeadLetterEntry]) -> None:
    _text(
        f"\n{_count(play.account.matches, 'match')} in {play.seconds:.1f} s. Before the rush, half of them "
        f"were rated and published within {play.usual_way:.0f} ms of entering the inbox."
    )
    _title("The leaderboard")
    _command("leaderboard")
    _title("One match, figure by figure")
    if play.ledger.events:
        _command("explain", play.ledger.example[1])
    _title("What could not be rated")
    sheet = console.Table(Column("reason", style="bold"), Column("count", right=True), Column("for example"))
    reasons = sorted({letter.reason for letter in dead})
    sheet.add(
        (reason, str(len(alike)), alike[0].detail)
        for reason in reasons
        if (alike := [letter for letter in dead if letter.reason == reason])
    )
    _title("Does it add up?")
    for statement in holds:
        _text(statement.text, *(("no", "bold red") if statement.faults else ("yes", "green")))
        for fault in statement.faults[:_FAULTS]:
            _text(fault, "-")
        if len(statement.faults) > _FAULTS:
            _text(f"and {len(statement.faults) - _FAULTS:,} more", "-")
    if not any(statement.faults for statement in holds):
        _text("\nIt all adds up. README.md tells how to plug in a match server.")
    sys.stdout.flush()


def _text(text: str, label: str = "", style: str = "") -> None:
    """A paragraph, with a label before it; wrapped on a terminal only."""
    if sys.stdout.isatty():
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_row(*([Text(label.ljust(3), style)] if label else []), Text(text))
        Console().print(row)
    else:
        print(f"{label:5}{text}" if label else text)


def _title(text: str) -> None:
    print()
    if sys.stdout.isatty():
        Console().rule(f"[bold]{text}", align="left", style="cyan")
    else:
        print(f"{text}\n{'-' * len(text)}")


def _command(*arguments: str) -> None:
    """Runs a command of the product, as the reader could."""
    print(f"$ match-ratings {' '.join(arguments)}")
    code = call(arguments)
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code == ExitCode.BROKEN_PIPE:
        raise BrokenPipeError


def _count(number: int, thing: str) -> str:
    many = thing + ("es" if thing.endswith(("s", "ch")) else "s")
    return f"{number:,} {thing if number == 1 else many}"
