"""`void --player`: take back the matches of a player who cheated, and refund the opponents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from match_ratings_worker.cli.console import (
    Column,
    Sheet,
    busy,
    heading,
    moment,
    note,
    number,
    print_json,
    signed,
)
from match_ratings_worker.cli.installation import NOT_FOUND, CommandError, Installation
from match_ratings_worker.cli.options import ask, time_of
from match_ratings_worker.cli.progress import steps
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings import RatingUpdated
    from match_ratings_worker.ladders_file import Ladder
    from match_ratings_worker.storage.keys import Keys
    from match_ratings_worker.voids import Outcome, Plan

__all__ = ["Several", "void_player"]

#: Matches that are named one by one.
_SHOWN = 20


class Several(NamedTuple):
    """Which matches, why, and for how many seconds of silence to wait."""

    player: str
    since: str
    until: str | None
    why: str
    patience: int


@dataclass(slots=True)
class _Progress:
    """How far it has come."""

    outcomes: list[Outcome] = field(default_factory=list)
    sent: int = 0
    #: No worker was running at the end.
    idle: bool = False

    def voids(self) -> list[RatingUpdated]:
        """The events that took matches back, in their order."""
        return [outcome.void for outcome in self.outcomes if outcome.void is not None]


def void_player(
    site: Installation, ladder: Ladder, keys: Keys, several: Several, *, dry_run: bool, yes: bool, json: bool
) -> None:
    """Takes back a player's matches and prints what everybody gets back."""
    name = f"{several.player} on ladder {ladder.name}"
    plan = run(site.settings.redis_url, lambda redis: _look(redis, ladder, keys, several))
    so_far = _Progress(list(plan.refused))
    if plan.matches and not dry_run:
        if not yes:
            _print_plan(plan, name) if not json else note(f"{name}: {_count(len(plan.matches))}")
            ask(f"Take back {_count(len(plan.matches))} of {name}?")
        try:
            run(site.settings.redis_url, lambda redis: _act(redis, site, keys, plan, several, so_far))
        except KeyboardInterrupt:
            sent = f"{so_far.sent} of {len(plan.matches)} messages were sent and will be carried out"
            note(f"match-ratings: interrupted; {sent}; run it again for the others")
            raise
    if json:
        print_json({"ladder": ladder.name, **_document(plan, so_far, dry_run=dry_run)})
    elif dry_run or not plan.matches:
        _print_plan(plan, name)
    else:
        _print_result(so_far, several.player, name)
    if _tell_left(so_far) and not dry_run:
        raise typer.Exit(NOT_FOUND)


async def _look(redis: Redis, ladder: Ladder, keys: Keys, several: Several) -> Plan:
    from match_ratings_worker import queries, voids

    now = await queries.server_time(redis, keys.inbox)
    since = time_of("--since", several.since, now)
    until = None if several.until is None else time_of("--until", several.until, now)
    with busy("Looking through the ledger"):
        plan = await voids.plan_for(redis, keys, ladder.system, several.player, since, until)
    if plan is None:
        raise CommandError(f"player {several.player} is not known on ladder {ladder.name}", NOT_FOUND)
    return plan


async def _act(
    redis: Redis, site: Installation, keys: Keys, plan: Plan, several: Several, so_far: _Progress
) -> None:
    from match_ratings_worker import queries, voids

    total = len(plan.matches)
    with steps() as tell:
        sent: list[Outcome] = []
        async for page in voids.send(redis, keys, plan.matches, several.why):
            sent += page
            so_far.sent = len(sent)
            tell("Sending", len(sent), total)
        done = 0
        async for page in voids.wait(redis, keys, sent, patience=several.patience):
            so_far.outcomes += page
            done += len(page)
            tell("Taking back", done, total)
    so_far.idle = not await queries.has_worker(redis, keys, int(site.settings.idle_seconds * 1000))


def _count(matches: int) -> str:
    return f"{matches} {'match' if matches == 1 else 'matches'}"


def _print_plan(plan: Plan, name: str) -> None:
    from match_ratings_worker.voids import Refunds

    if not plan.matches:
        heading(f"{name}: no match in this time that can be taken back")
        return
    refunds = Refunds(plan.player, plan.matches, planned=True)
    others = f"{len(refunds.matches)} {'opponent' if len(refunds.matches) == 1 else 'opponents'}"
    own = f"{signed(refunds.change)} points for {plan.player}"
    heading(f"{name}: {_count(len(plan.matches))} against {others}; {own}")
    sheet = Sheet(Column("finished"), Column("change", right=True), Column("opponent"), Column("match"))
    sheet.add(_row(match, plan.player) for match in plan.matches[:_SHOWN])
    if len(plan.matches) > _SHOWN:
        print(f"... and {len(plan.matches) - _SHOWN} older ones")


def _row(match: RatingUpdated, player: str) -> tuple[str, ...]:
    own, other = sorted(match.players, key=lambda part: part.player != player)
    return moment(match.finished_at), signed(-own.change), other.player, match.match_id or "-"


def _print_result(so_far: _Progress, player: str, name: str) -> None:
    from match_ratings_worker.voids import Refunds

    events = so_far.voids()
    refunds = Refunds(player, events)
    parts = [part for event in events for part in event.players if part.player == player]
    own = f"; {number(parts[0].before)} -> {number(parts[-1].after)} for {player}" if parts else ""
    heading(f"{name}: {_count(len(events))} taken back{own}")
    if events:
        sheet = Sheet(Column("points back", right=True), Column("matches", right=True), Column("opponent"))
        sheet.add((signed(points), str(matches), other) for other, matches, points in refunds.opponents)


def _document(plan: Plan, so_far: _Progress, *, dry_run: bool) -> dict[str, Any]:
    from match_ratings_worker.voids import Outcome, Refunds, Verdict

    outcomes, events = so_far.outcomes, so_far.voids()
    if dry_run:
        events = plan.matches
        rated = [Outcome(match.match_id or "", Verdict.RATED, match) for match in plan.matches]
        outcomes = [*rated, *outcomes]
    return {
        "player": plan.player,
        "dry_run": dry_run,
        "outcomes": dict(Counter(outcome.verdict.value for outcome in outcomes)),
        **Refunds(plan.player, events, planned=dry_run).document(),
        "matches": [outcome.document() for outcome in outcomes],
    }


def _tell_left(so_far: _Progress) -> bool:
    """Notes what is not taken back; whether there is any."""
    refused = [outcome for outcome in so_far.outcomes if outcome.verdict.value == "refused"]
    waiting = sum(outcome.verdict.value == "waiting" for outcome in so_far.outcomes)
    for outcome in refused[:_SHOWN]:
        note(f"{outcome.match_id} cannot be taken back: {outcome.detail}")
    if len(refused) > _SHOWN:
        note(f"... and {len(refused) - _SHOWN} others")
    if waiting:
        why = "no worker is running" if so_far.idle else "the workers have not come to them"
        note(f"{_count(waiting)} not taken back yet: {why}; the messages wait in the inbox")
    return bool(refused or waiting)
