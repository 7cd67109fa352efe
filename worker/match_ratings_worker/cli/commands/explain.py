"""`explain`: what a match changed and by which figures, or why it changed nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from match_ratings_worker.cli.commands.archive import archived
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_duration,
    format_number,
    format_time,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.parameters import checked_id
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings import RatingUpdated
    from match_ratings_worker.queries import Trace
    from match_ratings_worker.rating import RatingSystem, Side, Step

__all__ = ["explain"]

_LEDGER_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def explain(
    match_id: Annotated[
        str,
        typer.Argument(metavar="MATCH", help="The id of a match, a tournament, or an event of the ledger."),
    ],
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print each step of the formula with a match's figures, and check them by computing them again.

    For a match that changed no rating: whether it waits, was set aside by the rules, is a dead letter,
    or is not known here (exit code 1). A match sent several times has changed ratings once. An event that
    closed a rating period has an id in the ledger alone (see match-ratings player): with it, the period's
    games are named too.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)
    checked_id("MATCH", match_id)

    async def act(redis: Redis) -> tuple[Trace, RatingSystem | None, dict[str, list[str]]]:
        from match_ratings_worker import queries
        from match_ratings_worker.ladder_settings import adopted_settings as adoption
        from match_ratings_worker.ladder_settings.settings_history import SettingsHistory

        now = await queries.server_time(redis, keys.inbox)
        with archived(site, chosen.name) as shelf, spinner("Looking through the streams"):
            trace = await queries.trace(redis, keys, match_id, now, shelf)
            if trace.outcome == "unknown" and _LEDGER_ID.fullmatch(match_id):
                trace = await queries.trace_event(redis, keys, match_id, shelf) or trace
            if trace.event is None:
                return trace, None, {}
            rulebook = SettingsHistory(chosen.system, await adoption.history(redis, keys))
            games = {}
            if trace.event.cause == "period":
                for part in trace.event.players:
                    found = await queries.period_games(redis, keys, trace.event, part.player, shelf)
                    games[part.player] = found
            return trace, rulebook.system_of(trace.event.id or "0-0", trace.event), games

    trace, system, games = run(site.settings.redis_url, act)
    steps: list[Step] = []
    differences: list[str] | None = None
    if trace.event is not None and trace.event.cause in ("match", "period"):
        steps, differences = _computed(system, trace.event)
    if json:
        found = _document(chosen.name, trace, steps, differences)
        print_json({**found, "period_games": games} if games else found)
    elif trace.event is not None:
        _print_event(trace.event, match_id, steps, differences)
        for name, match_ids in games.items():
            print()
            print_fields([(f"games of {name}", ", ".join(match_ids) or "no longer kept")], indent=0)
        if trace.voided is not None:
            _print_void(trace.voided)
    elif trace.outcome not in ("unknown", "trimmed"):
        print_heading(_without_event(trace, chosen.name))
    if trace.event is None and trace.outcome in ("unknown", "trimmed"):
        raise CommandError(_without_event(trace, chosen.name), ExitCode.FAILED)


def _computed(system: RatingSystem | None, event: RatingUpdated) -> tuple[list[Step], list[str]]:
    """The steps of an event's formula, and where computing it again gives other figures."""
    if system is None:
        return [], [f"the rating system {event.system} is not known to this version"]
    try:
        steps = list(system.explain(event))
        if event.cause == "period":
            sides: Sequence[Side] = [system.recompute_close(part) for part in event.players]
            rules, factor = system.rules_at(event.finished_at - 1), None
        else:
            outcome = system.recompute(event)
            sides, rules, factor = outcome.sides, outcome.rules, outcome.coefficient
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return [], [f"it cannot be computed from these figures: {type(error).__name__}: {error}"]
    pairs: list[tuple[str, Any, Any]] = [
        ("rules", event.rules, rules),
        ("coefficient", event.coefficient, factor),
    ]
    for part, side in zip(event.players, sides, strict=True):
        pairs += [
            (f"{name} of {part.player}", getattr(part, name), value)
            for name, value in (
                ("expected", side.expected),
                ("k", side.k),
                ("change", side.change),
                ("after", side.rating),
            )
        ]
    return steps, [f"{name}: {told} in the event, {now} now" for name, told, now in pairs if told != now]


def _document(ladder: str, trace: Trace, steps: list[Step], differences: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"ladder": ladder, "id": trace.id, "outcome": trace.outcome.value}
    if trace.ledger_id is not None:
        found["ledger_id"] = trace.ledger_id
    if trace.event is not None:
        found["event"] = trace.event.model_dump(mode="json", exclude_none=True)
    if trace.voided is not None:
        found["voided"] = trace.voided.model_dump(mode="json", exclude_none=True)
    if differences is not None:
        found |= {"steps": [asdict(step) for step in steps], "differences": differences}
    if trace.inbox_id is not None:
        found |= {"inbox_id": trace.inbox_id, "waiting_ms": trace.waiting_ms, "claimed_by": trace.claimed_by}
    if trace.letter is not None:
        letter = trace.letter
        found["dead_letter"] = {"id": letter.id, "reason": letter.reason, "detail": letter.detail}
    return found


def _without_event(trace: Trace, ladder: str) -> str:
    """One sentence about a match that there is no event of."""
    name = f"{trace.id} on ladder {ladder}"
    if trace.letter is not None:
        letter = trace.letter
        return f"{name} was not rated and is dead letter {letter.id} ({letter.reason}): {letter.detail}"
    texts = {
        "not-rated": "changed no rating by the rules: it was boosted, part of a tournament, "
        "or of another kind that does not count",
        "brought": "was rated by the rater before this one; its result is in the ratings that were imported",
        "trimmed": f"was rated as {trace.ledger_id}, but that event is no longer kept",
        "waiting": f"waits in the inbox as {trace.inbox_id} for {format_duration(trace.waiting_ms)}, "
        + (f"claimed by {trace.claimed_by}" if trace.claimed_by else "not claimed by a worker yet"),
        "unknown": "is not known: not in the inbox, the ledger or the dead letters",
    }
    return f"{name} {texts[trace.outcome]}"


def _print_event(
    event: RatingUpdated, effect_id: str, steps: list[Step], differences: list[str] | None
) -> None:
    print_heading(f"{effect_id} on ladder {event.ladder}: {event.cause.value}")
    pairs = [
        ("event", event.id or "-"),
        ("finished", format_time(event.finished_at)),
        ("rated", format_time(event.rated_at) + (", after a later game" if event.late else "")),
        ("system", f"{event.system}, rules {event.rules}"),
    ]
    if event.cube is not None:
        pairs.append(("cube", str(event.cube)))
    print_fields(pairs)
    print()
    table = Table(
        Column("score"),
        Column("before", right=True),
        Column("change", right=True),
        Column("after", right=True, style="bold"),
        Column("games in 7 days", right=True),
        Column("player"),
    )
    table.add(
        (
            "-" if part.score is None else f"{part.score:g}",
            format_number(part.before),
            format_change(part.change),
            format_number(part.after),
            "-" if part.recent_games is None else str(part.recent_games),
            part.player,
        )
        for part in event.players
    )
    if steps:
        print()
        table = Table(
            Column("step"), Column("formula"), Column("result", right=True, style="bold"), Column("player")
        )
        table.add((step.label, step.formula, step.result, step.player or "both") for step in steps)
    if differences is not None:
        print()
        print_heading(
            "Computed again from the event alone: " + ("it differs." if differences else "the same figures.")
        )
        print_fields([("", difference) for difference in differences], indent=0)


def _print_void(event: RatingUpdated) -> None:
    print()
    print_heading(
        f"Taken back as event {event.id} on {format_time(event.rated_at)}: {event.why or 'no reason is kept'}"
    )
    print_fields((format_change(part.change), part.player) for part in event.players)
