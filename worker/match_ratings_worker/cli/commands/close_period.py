"""`close-period`: end the rating periods that are over, in systems that rate by period."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    format_time,
    print_heading,
    print_json,
    print_note,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.parameters import time_or_now
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.pipeline.close_due_periods import Closed, Closing
    from match_ratings_worker.rating import RatingSystem

__all__ = ["close_period"]


def close_period(
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Only periods that ended by then; without their grace."),
    ] = None,
    early: Annotated[
        bool,
        typer.Option("--early", help="Also periods that have not ended, before the system is changed."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """End the rating periods that are over: one event with cause `period` for each player.

    The workers do the same once a minute. Without options a period is ended when its grace (the ladder's
    setting grace_hours) has passed. A period stays open while a message waits that came in before that,
    since it may be a game of the period. Calling it again, or killing it, does no harm.
    """
    if early and until is not None:
        raise CommandError("--early: it makes no sense with --until", ExitCode.WRONG_INPUT)
    site = load_installation()
    chosen, keys = site.named(ladder)
    wanted = None if until is None else time_or_now("--until", until)
    sheet = Table(
        Column("before", right=True),
        Column("change", right=True),
        Column("after", right=True, style="bold"),
        Column("K", right=True),
        Column("games", right=True),
        Column("period ended"),
        Column("player"),
    )

    def show(found: list[Closed]) -> None:
        if json:
            for item in found:
                print_json(asdict(item))
        elif dry_run:
            sheet.add(_row(item) for item in found)

    async def act(redis: Redis) -> tuple[RatingSystem, Closing]:
        from match_ratings_worker import queries
        from match_ratings_worker.ladder_settings.adopted_settings import UnknownSettings
        from match_ratings_worker.pipeline.close_due_periods import Closing, adopted_store

        now = await queries.server_time(redis, keys.inbox)
        if wanted is not None and wanted > now:
            text = (
                f"--until: {format_time(wanted)} has not come yet; --early ends periods that have not ended"
            )
            raise CommandError(text, ExitCode.WRONG_INPUT)
        if early and await redis.xlen(keys.inbox):
            raise CommandError(
                "--early: messages wait in the inbox; let the workers finish them first", ExitCode.WRONG_INPUT
            )
        horizon = site.settings.horizon_ms
        try:
            store = await adopted_store(redis, chosen.name, chosen.system, horizon=horizon, keys=keys)
        except UnknownSettings as error:
            raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
        grace = None if wanted is None else 0
        closing = Closing(store, until=wanted, grace=grace, early=early, dry=dry_run)
        with spinner("Closing"):
            try:
                async for found in closing.run():
                    show(found)
            except RuntimeError as error:
                raise CommandError(f"a period could not be closed: {error}", ExitCode.UNAVAILABLE) from None
        return store.system, closing

    system, closing = run(site.settings.redis_url, act)
    if system.period_grace is None and not closing.closed:
        print_note(f"ladder {chosen.name} is rated by game ({system.name}); there are no periods to close")
        return
    if not json:
        verb = "would be closed" if dry_run else "closed"
        ended = f" that ended by {format_time(closing.until)}" if closing.until is not None else ""
        print_heading(f"ladder {chosen.name}: {closing.closed} players' periods{ended} {verb}")
    if closing.passed:
        print_note(
            f"{closing.passed} players were passed over: their stored state has no period that is over"
        )
    if closing.waiting:
        print_note("messages wait in the inbox; periods that they may belong to stay open")


def _row(item: Closed) -> tuple[str, ...]:
    return (
        format_number(item.before),
        format_change(item.change),
        format_number(item.after),
        format_number(item.k),
        str(item.games),
        format_time(item.ended),
        item.player,
    )
