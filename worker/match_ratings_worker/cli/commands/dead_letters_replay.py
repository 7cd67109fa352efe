"""`dead-letters replay`: have dead letters rated again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from match_ratings_worker.cli.change_options import ByOption, signed_reason, user_name
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import Column, Table, print_json
from match_ratings_worker.cli.dead_letter_options import AllOption, require_selection, with_filter_options
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode, refuse
from match_ratings_worker.cli.parameters import integer_option
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.dead_letters import (
    DeadLetterFilter,
    DeadLetterReplay,
    ReplayOptions,
    ReplayOutcome,
    ReplayResult,
    ReplaySummary,
    UnknownReplay,
    new_replay_name,
)
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle

#: Results printed at once.
_PAGE = 100


@with_filter_options()
def replay(
    where: DeadLetterFilter,
    every: AllOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the outcome that each would have; change nothing.")
    ] = False,
    rate: Annotated[int | None, integer_option("--rate", 1, 1_000_000, help="At most N a second.")] = None,
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
    by: ByOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print a line for each, also when they are many.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="REPLAY", help="Go on with a replay that was interrupted."),
    ] = None,
    timeout: Annotated[
        int,
        integer_option(
            "--timeout", 1, 86_400, metavar="SECONDS", help="Give up after this time without progress."
        ),
    ] = 30,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Put dead letters back into the inbox, for the workers to rate, and print the outcomes.

    Say which: ids, filters, or --all. They go in the order in which they were first sent, at most as
    fast as the workers take them, and only so many at once that live matches need not wait. Each ends as
    rated; duplicate; conflict or still wrong, which are dead letters again; or parked: not replayed,
    since a replay cannot help now (a version that is not known here, a time that has not come, or a
    match older than the horizon without --force-late). A match is never rated twice, whatever is
    replayed, and however often. Killed at any point, each message is either in the inbox or a dead letter.
    """
    if resume is None:
        require_selection(where, every=every)
    elif dry_run or every or not where.is_empty:
        text = "--resume: it makes no sense with ids, filters or --dry-run; the replay has its own"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if never_rated is not None and not force_late:
        raise CommandError("--never-rated: it goes with --force-late", ExitCode.WRONG_INPUT)
    author = by if by is not None else user_name()
    if never_rated is not None or by is not None:
        signed_reason(never_rated if never_rated is not None else "-", author)
    options = ReplayOptions(
        where,
        rate=None if rate is None else float(rate),
        include_parked=include_parked,
        force_late=force_late,
        never_rated=(never_rated or "").strip(),
        by=author.strip(),
        timeout=float(timeout),
    )
    report = _Report(verbose=verbose or dry_run or bool(where.ids), json=json)
    name = resume if resume is not None else new_replay_name()
    goes_on = "" if dry_run else f"; replay --resume {name} goes on"

    async def act(handle: LadderHandle) -> tuple[DeadLetterReplay, str]:
        try:
            running = DeadLetterReplay(handle, options if resume is None else None, name)
        except ValueError as error:
            refuse("--resume", name, str(error))
        if not dry_run and not json:
            print_note(f"replay {name} on ladder {handle.name}")
        with progress_bar(visible=not report.on_terminal) as show_progress:
            async for result in running.dry_run() if dry_run else running.results():
                report.add(result)
                show_progress("Looking" if dry_run else "Replaying", report.summary.total, running.total)
        return running, handle.name

    try:
        done, ladder_name = run_on_ladder(load_installation(), ladder, act)
    except UnknownReplay:
        raise CommandError(
            f"--resume: there is no replay {quote(resume)} any more", ExitCode.FAILED
        ) from None
    except KeyboardInterrupt:
        print_note(f"match-ratings: interrupted{goes_on}")
        raise
    except CommandError as fault:
        raise CommandError(
            f"{fault}{goes_on if fault.code == ExitCode.UNAVAILABLE else ''}", fault.code
        ) from None
    report.close(done, dry_run=dry_run)
    if done.stopped:
        raise CommandError(_why_stopped(done, report.summary, ladder_name), ExitCode.UNAVAILABLE)
    if where.ids and report.summary.counts[ReplayOutcome.GONE]:
        raise typer.Exit(ExitCode.FAILED)


def _why_stopped(done: DeadLetterReplay, summary: ReplaySummary, ladder: str) -> str:
    waiting, left = summary.counts[ReplayOutcome.WAITING], summary.counts[ReplayOutcome.LEFT]
    text = f"{done.stopped} ({ladder}): {left} are left as dead letters"
    if waiting:
        text += f", {waiting} wait in the inbox for a worker"
    if left or waiting:
        text += f"; when one runs (match-ratings worker), go on with replay --resume {done.name}"
    return text


class _Report:
    def __init__(self, *, verbose: bool, json: bool) -> None:
        self.summary = ReplaySummary()
        self._verbose = verbose
        self._json = json
        self._page: list[ReplayResult] = []
        self._sheet = Table(Column("dead letter"), Column("outcome"), Column("new id"), Column("detail"))

    @property
    def on_terminal(self) -> bool:
        """Whether lines are printed on a terminal, where a progress bar would get in between."""
        return self._verbose and sys.stdout.isatty()

    def add(self, result: ReplayResult) -> None:
        """Count the next result, and print the page when it is full."""
        self.summary.add(result)
        if self._verbose:
            self._page.append(result)
            if len(self._page) == _PAGE:
                self._flush()

    def _flush(self) -> None:
        if self._json:
            for result in self._page:
                print_json(result.document())
        elif self._page:
            self._sheet.add(
                (item.letter, item.outcome.value.replace("-", " "), item.new_id or "-", item.detail)
                for item in self._page
            )
        self._page.clear()

    def close(self, done: DeadLetterReplay, *, dry_run: bool) -> None:
        """Print the rest and the sums."""
        self._flush()
        if self._json:
            about = {"dry_run": True} if dry_run else {"replay": done.name, "stopped": done.stopped}
            print_json({**about, "dead_letters": done.total, **self.summary.document()})
        elif not done.total:
            print_note("there are no such dead letters")
        else:
            what = "nothing was changed; a replay would give" if dry_run else "replayed"
            print(f"{what}: {self.summary.sentence()}")
