"""`void --player`: take back the matches of a player who cheated, and refund the opponents."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from worker.commands.common import NOT_FOUND, WRONG_INPUT, Fault, Site
from worker.commands.options import ask, time_of
from worker.commands.output import Column, Sheet, busy, heading, moment, note, number, print_json, signed
from worker.commands.progress import Tell, steps
from worker.commands.server import run
from worker.commands.void import document

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from contracts import RatingUpdated
    from worker.keys import Keys
    from worker.settings import Ladder
    from worker.voids import Outcome

__all__ = ["void_player"]

#: Matches, and opponents, that are named one by one.
_SHOWN = 20


@dataclass(slots=True)
class _Plan:
    """What is to be taken back, newest first."""

    matches: list[RatingUpdated]
    #: Those that the rules refuse.
    refused: list[Outcome]


@dataclass(slots=True)
class _Job:
    """What has become of it so far."""

    outcomes: list[Outcome] = field(default_factory=list)
    sent: int = 0
    idle: bool = False


def void_player(
    site: Site,
    ladder: Ladder,
    keys: Keys,
    player: str,
    since: str | None,
    until: str | None,
    why: str,
    *,
    dry_run: bool,
    yes: bool,
    patience: int,
    json: bool,
) -> None:
    """Takes back a player's matches and prints what everybody gets back."""
    if since is None:
        raise Fault("--since: it is required with --player", WRONG_INPUT)
    url = site.settings.redis_url

    async def look(redis: Redis) -> _Plan:
        return await _plan(redis, ladder, keys, player, since, until)

    plan = run(url, look)
    job = _Job(list(plan.refused))
    if plan.matches and not dry_run:
        if not json or not yes:
            _print_plan(plan, player, ladder.name, to_stderr=json)
        if not yes:
            ask(f"Take back {_count(len(plan.matches))} of {player} on ladder {ladder.name}?")

        async def act(redis: Redis) -> None:
            from worker.queries import has_worker

            with steps() as tell:
                await _carry_out(redis, keys, plan, why, job, patience, tell)
            job.idle = not await has_worker(redis, keys, int(site.settings.idle_seconds * 1000))

        try:
            run(url, act)
        except KeyboardInterrupt:
            rest = f"{job.sent} of {len(plan.matches)} messages were sent and will be carried out"
            note(f"match-ratings: interrupted; {rest}; run it again for the others")
            raise
    if json:
        print_json(_document(plan, job, player, ladder.name, dry_run=dry_run))
    elif dry_run or not plan.matches:
        _print_plan(plan, player, ladder.name)
    else:
        _print_result(job, player, ladder.name)
    _end(job, dry_run=dry_run, json=json)


async def _plan(
    redis: Redis, ladder: Ladder, keys: Keys, player: str, since: str, until: str | None
) -> _Plan:
    from worker import queries, voids

    now = await queries.server_time(redis, keys.inbox)
    start = time_of("--since", since, now)
    end = None if until is None else time_of("--until", until, now)
    if not await redis.exists(keys.player(player)):
        raise Fault(f"player {player} is not known on ladder {ladder.name}", NOT_FOUND)
    with busy("Looking through the ledger"):
        matches = await voids.games_of(redis, keys, player, start, end)
        why_not = await voids.refusals(redis, keys, ladder.system, matches)
    refused = [
        voids.Outcome(match.match_id, voids.Verdict.REFUSED, match, detail=why_not[match.match_id])
        for match in matches
        if match.match_id is not None and match.match_id in why_not
    ]
    return _Plan([match for match in matches if match.match_id not in why_not], refused)


async def _carry_out(
    redis: Redis, keys: Keys, plan: _Plan, why: str, job: _Job, patience: int, tell: Tell
) -> None:
    from worker import voids

    total = len(plan.matches)
    waiting: list[Outcome] = []
    async for page in voids.send(redis, plan.matches, why):
        waiting += page
        job.sent = len(waiting)
        tell("Sending", job.sent, total)
    done = 0
    async for page in voids.wait(redis, keys, waiting, patience=patience):
        job.outcomes += page
        done += len(page)
        tell("Taking back", done, total)


def _count(matches: int) -> str:
    return f"{matches} {'match' if matches == 1 else 'matches'}"


def _changes(events: list[RatingUpdated], player: str) -> tuple[float, Counter[str], Counter[str]]:
    """The player's own change, and each opponent's matches and change, that these events make."""
    own: float = 0
    matches: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    for event in events:
        for part in event.players:
            if part.player == player:
                own += part.change
            else:
                matches[part.player] += 1
                changes[part.player] += part.change  # type: ignore[assignment]  # a tally of floats, too
    return own, matches, changes


def _print_plan(plan: _Plan, player: str, ladder: str, *, to_stderr: bool = False) -> None:
    if to_stderr:
        note(f"{player} on ladder {ladder}: {_count(len(plan.matches))} to take back")
        return
    if not plan.matches:
        heading(f"{player} on ladder {ladder}: no match in this time that still counts")
    else:
        own, matches, _ = _changes(plan.matches, player)
        heading(
            f"{player} on ladder {ladder}: {_count(len(plan.matches))} against {len(matches)} "
            f"{'opponent' if len(matches) == 1 else 'opponents'}; {signed(-own)} points for {player}"
        )
        sheet = Sheet(Column("finished"), Column("change", right=True), Column("opponent"), Column("match"))
        sheet.add(_row(match, player) for match in plan.matches[:_SHOWN])
        if len(plan.matches) > _SHOWN:
            print(f"... and {len(plan.matches) - _SHOWN} older ones")


def _row(match: RatingUpdated, player: str) -> tuple[str, ...]:
    change = next(-part.change for part in match.players if part.player == player)
    opponent = next(part.player for part in match.players if part.player != player)
    return moment(match.finished_at), signed(change), opponent, match.match_id or "-"


def _print_result(job: _Job, player: str, ladder: str) -> None:
    events = [outcome.void for outcome in job.outcomes if outcome.void is not None]
    own, matches, changes = _changes(events, player)
    parts = [part for event in events for part in event.players if part.player == player]
    standing = (
        f"; {player} {number(parts[0].before)} -> {number(parts[-1].after)} ({signed(own)})" if parts else ""
    )
    heading(f"{player} on ladder {ladder}: {_count(len(events))} taken back{standing}")
    if events:
        sheet = Sheet(Column("points back", right=True), Column("matches", right=True), Column("opponent"))
        sheet.add((signed(changes[name]), str(matches[name]), name) for name in _order(changes))


def _order(changes: Counter[str]) -> list[str]:
    return [name for name, _ in sorted(changes.items(), key=lambda item: (-item[1], item[0]))]


def _document(plan: _Plan, job: _Job, player: str, ladder: str, *, dry_run: bool) -> dict[str, Any]:
    events = [outcome.void for outcome in job.outcomes if outcome.void is not None]
    own, matches, changes = _changes(events, player)
    found = [document(outcome) for outcome in job.outcomes]
    if dry_run:
        own, matches, changes = _changes(plan.matches, player)
        own, changes = -own, Counter({name: -change for name, change in changes.items()})
        found += [
            {"match_id": match.match_id, "outcome": "rated", "match_event": match.id}
            for match in plan.matches
        ]
    return {
        "ladder": ladder,
        "player": player,
        "dry_run": dry_run,
        "outcomes": dict(Counter(item["outcome"] for item in found)),
        "change": own,
        "opponents": [
            {"player": name, "matches": matches[name], "change": changes[name]} for name in _order(changes)
        ],
        "matches": found,
    }


def _end(job: _Job, *, dry_run: bool, json: bool) -> None:
    """Tells what was not done, and ends with exit code 1 if anything was not."""
    left = [outcome for outcome in job.outcomes if outcome.verdict in ("refused", "waiting")]
    if not left:
        return
    for outcome in left[:_SHOWN]:
        if outcome.verdict == "refused":
            note(f"{outcome.match_id} cannot be taken back: {outcome.detail}")
    waiting = sum(outcome.verdict == "waiting" for outcome in left)
    if waiting:
        why = "no worker is running" if job.idle else "the workers have not come to them"
        note(f"{_count(waiting)} not taken back yet: {why}; the messages wait in the inbox")
    if dry_run:
        return
    sys.stdout.flush()
    raise typer.Exit(NOT_FOUND)
