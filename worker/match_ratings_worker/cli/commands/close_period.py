"""`close-period`: end the rating periods that are over, in systems that rate by period."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    format_time,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import parse_time
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.ladder_settings import UnknownSettings
from match_ratings_worker.pipeline import ClosedPeriod, PeriodCloser, adopted_store
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage import LadderHandle, server_time
from match_ratings_worker.time_units import now_ms


def close_period(
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Only periods that ended by then; without their grace."),
    ] = None,
    early: Annotated[
        bool, typer.Option("--early", help="Also periods that have not ended, before the system is changed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """End the rating periods that are over: one event with cause `period` for each player.

    The workers do the same once a minute. By default a period ends when its grace (the ladder's setting
    grace_hours) has passed. It stays open while an older message waits in the inbox, since that may be
    a game of the period. It is safe to run this again, and to kill it.
    """
    if early and until is not None:
        raise CommandError("--early: it makes no sense with --until", ExitCode.WRONG_INPUT)
    wanted = None if until is None else parse_time("--until", until, now_ms())
    table = Table(
        Column("before", right=True),
        Column("change", right=True),
        Column("after", right=True, style="bold"),
        Column("K", right=True),
        Column("games", right=True),
        Column("period ended"),
        Column("player"),
    )

    def show(closed: list[ClosedPeriod]) -> None:
        if json:
            for item in closed:
                print_json(asdict(item))
        elif dry_run:
            table.add(_row(item) for item in closed)

    async def act(handle: LadderHandle) -> tuple[str, RatingSystem, PeriodCloser]:
        await _check(handle, wanted, early=early)
        try:
            store = await adopted_store(handle)
        except UnknownSettings as error:
            raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
        grace = None if wanted is None else 0
        closing = PeriodCloser(store, until=wanted, grace=grace, early=early, dry=dry_run)
        with spinner("Closing"):
            try:
                async for closed in closing.run():
                    show(closed)
            except RuntimeError as error:
                raise CommandError(f"a period could not be closed: {error}", ExitCode.UNAVAILABLE) from None
        return handle.name, store.system, closing

    name, system, closing = run_on_ladder(load_installation(), ladder, act)
    if system.period_grace is None and not closing.closed:
        print_note(f"ladder {name} is rated by game ({system.name}); there are no periods to close")
        return
    if not json:
        verb = "would be closed" if dry_run else "closed"
        ended = f" that ended by {format_time(closing.until)}" if closing.until is not None else ""
        print_heading(f"ladder {name}: {closing.closed} players' periods{ended} {verb}")
    if closing.passed:
        text = f"{closing.passed} players were passed over: their stored state has no period that is over"
        print_note(text)
    if closing.waiting:
        print_note("messages wait in the inbox; periods that they may belong to stay open")


async def _check(ladder: LadderHandle, until: int | None, *, early: bool) -> None:
    now = await server_time(ladder.redis, ladder.keys.inbox)
    if until is not None and until > now:
        text = f"--until: {format_time(until)} has not come yet; --early ends periods that have not ended"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if early and await ladder.redis.xlen(ladder.keys.inbox):
        text = "--early: messages wait in the inbox; let the workers finish them first"
        raise CommandError(text, ExitCode.WRONG_INPUT)


def _row(item: ClosedPeriod) -> tuple[str, ...]:
    return (
        format_number(item.before),
        format_change(item.change),
        format_number(item.after),
        format_number(item.k),
        str(item.games),
        format_time(item.ended),
        item.player,
    )
