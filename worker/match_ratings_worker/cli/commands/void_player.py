"""`void --player`: void the matches of a player who cheated, and refund the opponents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import typer

from match_ratings import RatingUpdated
from match_ratings_worker.cli.change_options import confirm
from match_ratings_worker.cli.configured_ladders import Installation
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
from match_ratings_worker.cli.progress import progress_bar, spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.storage import LadderHandle, has_worker, server_time
from match_ratings_worker.voids import (
    PlayerVoidPlan,
    Refunds,
    VoidResult,
    VoidStatus,
    plan_player_voids,
    send_voids,
    wait_for_voids,
)

#: Matches listed one by one.
_SHOWN = 20


class PlayerVoidRequest(NamedTuple):
    """Which matches to void, why, and how long to wait for each result."""

    player: str
    #: Times as given on the command line.
    since: str
    until: str | None
    why: str
    #: Seconds.
    timeout: int


@dataclass(slots=True)
class _Progress:
    results: list[VoidResult] = field(default_factory=list)
    sent: int = 0
    #: Whether a worker was running at the end.
    has_worker: bool = True

    def void_events(self) -> list[RatingUpdated]:
        """The events that voided matches, in their order."""
        return [result.void for result in self.results if result.void is not None]


def void_player(
    installation: Installation,
    ladder: str,
    request: PlayerVoidRequest,
    *,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    """Void a player's matches and print the points that everybody gets back."""
    name = f"{request.player} on ladder {ladder}"
    plan = run_on_ladder(installation, ladder, lambda handle: _plan(handle, request))
    so_far = _Progress(list(plan.refused))
    if plan.matches and not dry_run:
        if not yes:
            _print_plan(plan, name) if not json else print_note(f"{name}: {_count(len(plan.matches))}")
            confirm(f"Void {_count(len(plan.matches))} of {name}?")
        try:
            run_on_ladder(installation, ladder, lambda handle: _void(handle, plan, request, so_far))
        except KeyboardInterrupt:
            sent = f"{so_far.sent} of {len(plan.matches)} messages were sent and will be carried out"
            print_note(f"match-ratings: interrupted; {sent}; run it again for the others")
            raise
    if json:
        print_json({"ladder": ladder, **_document(plan, so_far, dry_run=dry_run)})
    elif dry_run or not plan.matches:
        _print_plan(plan, name)
    else:
        _print_result(so_far, request.player, name)
    if _note_not_voided(so_far) and not dry_run:
        raise typer.Exit(ExitCode.FAILED)


async def _plan(handle: LadderHandle, request: PlayerVoidRequest) -> PlayerVoidPlan:
    now = await server_time(handle.redis, handle.keys.inbox)
    since = parse_time("--since", request.since, now)
    until = None if request.until is None else parse_time("--until", request.until, now)
    with spinner("Looking through the ledger"):
        plan = await plan_player_voids(handle, request.player, since, until)
    if plan is None:
        raise CommandError(f"player {request.player} is not known on ladder {handle.name}", ExitCode.FAILED)
    return plan


async def _void(
    handle: LadderHandle, plan: PlayerVoidPlan, request: PlayerVoidRequest, so_far: _Progress
) -> None:
    total = len(plan.matches)
    with progress_bar() as show_progress:
        sent: list[VoidResult] = []
        async for page in send_voids(handle, plan.matches, request.why):
            sent += page
            so_far.sent = len(sent)
            show_progress("Sending", len(sent), total)
        done = 0
        async for page in wait_for_voids(handle, sent, timeout=request.timeout):
            so_far.results += page
            done += len(page)
            show_progress("Voiding", done, total)
    so_far.has_worker = await has_worker(handle.redis, handle.keys, handle.idle_ms)


def _count(matches: int) -> str:
    return f"{matches} {'match' if matches == 1 else 'matches'}"


def _print_plan(plan: PlayerVoidPlan, name: str) -> None:
    if not plan.matches:
        print_heading(f"{name}: no match in this time that can be voided")
        return
    refunds = Refunds(plan.player, plan.matches, planned=True)
    others = f"{len(refunds.matches)} {'opponent' if len(refunds.matches) == 1 else 'opponents'}"
    own = f"{format_change(refunds.change)} points for {plan.player}"
    print_heading(f"{name}: {_count(len(plan.matches))} against {others}; {own}")
    sheet = Table(Column("finished"), Column("change", right=True), Column("opponent"), Column("match"))
    sheet.add(_row(match, plan.player) for match in plan.matches[:_SHOWN])
    if len(plan.matches) > _SHOWN:
        print(f"... and {len(plan.matches) - _SHOWN} older ones")


def _row(match: RatingUpdated, player: str) -> tuple[str, ...]:
    own, other = sorted(match.players, key=lambda part: part.player != player)
    return format_time(match.finished_at), format_change(-own.change), other.player, match.match_id or "-"


def _print_result(so_far: _Progress, player: str, name: str) -> None:
    events = so_far.void_events()
    refunds = Refunds(player, events)
    parts = [part for event in events for part in event.players if part.player == player]
    own = (
        f"; {format_number(parts[0].before)} -> {format_number(parts[-1].after)} for {player}"
        if parts
        else ""
    )
    print_heading(f"{name}: {_count(len(events))} voided{own}")
    if events:
        sheet = Table(Column("points back", right=True), Column("matches", right=True), Column("opponent"))
        sheet.add(
            (format_change(points), str(matches), other) for other, matches, points in refunds.opponents
        )


def _document(plan: PlayerVoidPlan, so_far: _Progress, *, dry_run: bool) -> dict[str, Any]:
    results, events = so_far.results, so_far.void_events()
    if dry_run:
        events = plan.matches
        planned = [VoidResult(match.match_id or "", VoidStatus.RATED, match) for match in plan.matches]
        results = [*planned, *results]
    return {
        "player": plan.player,
        "dry_run": dry_run,
        "outcomes": dict(Counter(result.status.value for result in results)),
        **Refunds(plan.player, events, planned=dry_run).document(),
        "matches": [result.document() for result in results],
    }


def _note_not_voided(so_far: _Progress) -> bool:
    """Print notes on matches that are not voided; whether there are any."""
    refused = [result for result in so_far.results if result.status is VoidStatus.REFUSED]
    waiting = sum(result.status is VoidStatus.WAITING for result in so_far.results)
    for result in refused[:_SHOWN]:
        print_note(f"{result.match_id} cannot be voided: {result.detail}")
    if len(refused) > _SHOWN:
        print_note(f"... and {len(refused) - _SHOWN} others")
    if waiting:
        why = "the workers have not come to them" if so_far.has_worker else "no worker is running"
        print_note(f"{_count(waiting)} not voided yet: {why}; the messages wait in the inbox")
    return bool(refused or waiting)
