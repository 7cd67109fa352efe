"""`dead-letters replay`: have dead letters rated again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.commands.common import (
    NOT_FOUND,
    UNAVAILABLE,
    WRONG_INPUT,
    Fault,
    JsonOption,
    LadderOption,
    Site,
    load_site,
    whole_number,
)
from worker.commands.letters import (
    AllOption,
    BeforeOption,
    IdsArgument,
    MatchOption,
    PlayerOption,
    ReasonOption,
    SinceOption,
    carry_out,
    meant,
    setup_of,
    some_meant,
)
from worker.commands.options import WhoOption, reason, user_name
from worker.commands.output import Column, Sheet, note, print_json
from worker.commands.progress import steps

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from worker.letters import Filter, Order, Result, Setup

__all__ = ["replay"]

#: Results that are printed at once.
_PAGE = 100


def replay(
    ids: IdsArgument = None,
    reasons: ReasonOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    player: PlayerOption = None,
    match_id: MatchOption = None,
    every: AllOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would become of each; change nothing.")
    ] = False,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate", parser=whole_number("--rate", 1, 1_000_000), metavar="N", help="At most N a second."
        ),
    ] = None,
    include_parked: Annotated[
        bool, typer.Option("--include-parked", help="Also those that a replay cannot help now.")
    ] = False,
    force_late: Annotated[
        bool, typer.Option("--force-late", help="Also those older than the horizon, if they were not rated.")
    ] = False,
    never_rated: Annotated[
        str | None,
        typer.Option(
            "--never-rated",
            metavar="WHY",
            help="Your word, and reason, that they were not rated, where the ledger cannot tell.",
        ),
    ] = None,
    who: WhoOption = None,
    each: Annotated[bool, typer.Option("--each", help="Print a line for each, also when they are many.")] = False,
    run_name: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Take up a replay that was cut off.")
    ] = None,
    patience: Annotated[
        int,
        typer.Option(
            "--wait",
            parser=whole_number("--wait", 1, 86_400),
            metavar="SECONDS",
            help="Give up when for so long nothing moves.",
        ),
    ] = 30,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Put dead letters back into the inbox, for the workers to rate, and say what became of each.

    Say which: ids, filters, or --all. They go in the order in which they were first sent, at most as
    fast as the workers take them, and never so many at once that live matches wait. Each ends as rated;
    already rated; conflict or still wrong, which are dead letters again; or parked: left where it is,
    since a replay cannot help now (a version that is not known here, a time that has not come, or a
    match older than the horizon without --force-late). A match is never rated twice, whatever is
    replayed, and however often. Killed at any point, each message is either in the inbox or a dead letter.
    """
    where = meant(ids, reasons, since, before, player, match_id)
    if run_name is None:
        some_meant(where, every=every)
    if never_rated is not None and not force_late:
        raise Fault("--never-rated: it goes with --force-late", WRONG_INPUT)
    if dry_run and run_name is not None:
        raise Fault("--run: it makes no sense with --dry-run", WRONG_INPUT)
    by = who if who is not None else user_name()
    if never_rated is not None or who is not None:
        reason(never_rated if never_rated is not None else "-", by)
    site = load_site()
    order = _order(
        where,
        rate=rate,
        include_parked=include_parked,
        force_late=force_late,
        never_rated=(never_rated or "").strip(),
        who=by.strip(),
        patience=patience,
    )
    _carry_out(
        site, setup_of(site, ladder), order, run_name, dry_run=dry_run, each=each or dry_run or bool(ids), json=json
    )


def _order(
    where: Filter,
    *,
    rate: int | None,
    include_parked: bool,
    force_late: bool,
    never_rated: str,
    who: str,
    patience: int,
) -> Order:
    from worker.letters import Order

    return Order(
        where,
        rate=None if rate is None else float(rate),
        include_parked=include_parked,
        force_late=force_late,
        never_rated=never_rated,
        who=who,
        patience=float(patience),
    )
