"""`dead-letters replay`: have dead letters rated again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.console import Column, Sheet, note, print_json
from match_ratings_worker.cli.dead_letter_options import (
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
from match_ratings_worker.cli.installation import (
    NOT_FOUND,
    UNAVAILABLE,
    WRONG_INPUT,
    CommandError,
    JsonOption,
    LadderOption,
    load_installation,
    whole_number,
)
from match_ratings_worker.cli.options import WhoOption, reason, user_name
from match_ratings_worker.cli.progress import steps
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Replay, Result, Summary

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
    each: Annotated[
        bool, typer.Option("--each", help="Print a line for each, also when they are many.")
    ] = False,
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
    elif dry_run or every or not where.all:
        raise CommandError(
            "--run: it makes no sense with ids, filters or --dry-run; its run has them", WRONG_INPUT
        )
    if never_rated is not None and not force_late:
        raise CommandError("--never-rated: it goes with --force-late", WRONG_INPUT)
    by = who if who is not None else user_name()
    if never_rated is not None or who is not None:
        reason(never_rated if never_rated is not None else "-", by)
    from match_ratings_worker.dead_letters import Order, Outcome, Replay, UnknownReplay, new_replay_name

    site = load_installation()

    order = Order(
        where,
        rate=None if rate is None else float(rate),
        include_parked=include_parked,
        force_late=force_late,
        never_rated=(never_rated or "").strip(),
        who=by.strip(),
        patience=float(patience),
    )
    setup = setup_of(site, ladder)
    report = _Report(each=each or dry_run or bool(ids), json=json)

    name = run_name if run_name is not None else new_replay_name()
    goes_on = "" if dry_run else f"; replay --run {name} goes on"

    async def act(redis: Redis) -> Replay:
        try:
            begun = Replay(redis, setup, order if run_name is None else None, name)
        except ValueError as error:
            raise CommandError(f"--run: {quote(run_name)} is not allowed; {error}", WRONG_INPUT) from None
        if not dry_run and not json:
            note(f"replay {begun.name} on ladder {setup.ladder}")
        with steps(wanted=not report.on_terminal) as tell:
            async for result in begun.dry_run() if dry_run else begun.results():
                report.add(result)
                tell("Looking" if dry_run else "Replaying", report.summary.total, begun.total)
        return begun

    try:
        done = carry_out(site, act)
    except UnknownReplay:
        raise CommandError(f"--run: there is no replay {quote(run_name)} any more", NOT_FOUND) from None
    except KeyboardInterrupt:
        note(f"match-ratings: interrupted{goes_on}")
        raise
    except CommandError as fault:
        raise CommandError(f"{fault}{goes_on if fault.code == UNAVAILABLE else ''}", fault.code) from None
    report.close(done, dry_run=dry_run)
    if done.stopped:
        raise CommandError(_why_not(done, report.summary, setup.ladder), UNAVAILABLE)
    if ids and report.summary.counts[Outcome.GONE]:
        raise typer.Exit(NOT_FOUND)


def _why_not(done: Replay, summary: Summary, ladder: str) -> str:
    from match_ratings_worker.dead_letters import Outcome

    waiting, left = summary.counts[Outcome.WAITING], summary.counts[Outcome.LEFT]
    text = f"{done.stopped} ({ladder}): {left} are left as dead letters"
    if waiting:
        text += f", {waiting} wait in the inbox for a worker"
    if left or waiting:
        text += f"; when one runs (match-ratings worker), go on with replay --run {done.name}"
    return text


class _Report:
    """Prints results as they come, and the sum of them."""

    def __init__(self, *, each: bool, json: bool) -> None:
        from match_ratings_worker.dead_letters import Summary

        self.summary = Summary()
        self._each = each
        self._json = json
        self._page: list[Result] = []
        self._sheet = Sheet(Column("dead letter"), Column("outcome"), Column("now"), Column("detail"))

    @property
    def on_terminal(self) -> bool:
        """Whether lines are printed on a terminal, where a bar would get in between."""
        return self._each and sys.stdout.isatty()

    def add(self, result: Result) -> None:
        """Takes the next result."""
        self.summary.add(result)
        if self._each:
            self._page.append(result)
            if len(self._page) == _PAGE:
                self._flush()

    def _flush(self) -> None:
        if self._json:
            for result in self._page:
                print_json(result.document())
        elif self._page:
            self._sheet.add(
                (item.letter, item.outcome.value.replace("-", " "), item.now or "-", item.detail)
                for item in self._page
            )
        self._page.clear()

    def close(self, done: Replay, *, dry_run: bool) -> None:
        """Prints what is left to be printed, and the sum."""
        self._flush()
        if self._json:
            about = {"dry_run": True} if dry_run else {"run": done.name, "stopped": done.stopped}
            print_json({**about, "dead_letters": done.total, **self.summary.document()})
        elif not done.total:
            note("there are no such dead letters")
        else:
            what = "nothing was changed; replayed now would be" if dry_run else "replayed"
            print(f"{what}: {self.summary.sentence()}")
