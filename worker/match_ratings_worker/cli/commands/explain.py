"""`explain`: the figures by which a match changed ratings, or the reason why it did not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.audit import FAULTS, recompute_event
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
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
from match_ratings_worker.cli.parameters import id_argument
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.ladder_settings import SettingsHistory
from match_ratings_worker.ladder_settings import adopt_settings as adoption
from match_ratings_worker.ledger import MatchOutcome, Trace, open_ledger, period_games, trace
from match_ratings_worker.queries import server_time
from match_ratings_worker.rating import RatingSystem, Step
from match_ratings_worker.storage import LadderHandle

#: Outcomes of which nothing can be shown.
_GONE = (MatchOutcome.UNKNOWN, MatchOutcome.TRIMMED)


def explain(
    match_id: Annotated[
        str, id_argument("MATCH", help="The id of a match, a tournament, or an event of the ledger.")
    ],
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print each step of the formula with a match's figures, and check them by recomputing the event.

    For a match that changed no rating: whether it waits, was not rated by the rules, is a dead letter,
    or is not known (exit code 1). A match sent several times changes ratings once. An event that closed
    a rating period has only an id in the ledger (see match-ratings player); its games are named too.
    """
    site = load_installation()
    name = site.ladder(ladder).name

    async def act(handle: LadderHandle) -> tuple[Trace, RatingSystem | None, dict[str, list[str]]]:
        now = await server_time(handle.redis, handle.keys.inbox)
        with open_ledger(handle) as ledger, spinner("Searching the streams"):
            found = await trace(ledger, match_id, now)
            event = found.event
            if event is None:
                return found, None, {}
            history = SettingsHistory(handle.system, await adoption.history(handle.redis, handle.keys))
            games = {}
            if event.cause is Cause.PERIOD:
                games = {
                    part.player: await period_games(ledger, event, part.player) for part in event.players
                }
            return found, history.system_of(event.id or "0-0", event), games

    found, system, games = run_on_ladder(site, ladder, act)
    steps: list[Step] = []
    differences: list[str] | None = None
    if found.event is not None and found.event.cause in (Cause.MATCH, Cause.PERIOD):
        steps, differences = _recompute(system, found.event)
    if json:
        document = _document(name, found, steps, differences)
        print_json({**document, "period_games": games} if games else document)
    elif found.event is not None:
        _print_event(found.event, match_id, steps, differences)
        for player, match_ids in games.items():
            print()
            print_fields([(f"games of {player}", ", ".join(match_ids) or "no longer kept")], indent=0)
        if found.voided is not None:
            _print_void(found.voided)
    elif found.outcome not in _GONE:
        print_heading(_without_event(found, name))
    if found.event is None and found.outcome in _GONE:
        raise CommandError(_without_event(found, name), ExitCode.FAILED)


def _recompute(system: RatingSystem | None, event: RatingUpdated) -> tuple[list[Step], list[str]]:
    """The steps of an event's formula, and the figures that differ when it is recomputed."""
    if system is None:
        return [], [f"the rating system {event.system} is not known to this version"]
    differences = recompute_event(event, system).differences
    try:
        return list(system.explain(event)), differences
    except FAULTS as error:
        text = f"its steps cannot be computed: {type(error).__name__}: {error}"
        return [], differences or [text]


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
    """One sentence about a match without an event."""
    name = f"{trace.id} on ladder {ladder}"
    if trace.letter is not None:
        letter = trace.letter
        return f"{name} was not rated and is dead letter {letter.id} ({letter.reason}): {letter.detail}"
    texts = {
        "not-rated": "changed no rating by the rules: it was boosted, part of a tournament, "
        "or of another kind that does not count",
        "imported": "was rated by the rater before this one; its result is in the ratings that were imported",
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
            "Recomputed from the event alone: " + ("it differs." if differences else "the same figures.")
        )
        print_fields([("", difference) for difference in differences], indent=0)


def _print_void(event: RatingUpdated) -> None:
    print()
    print_heading(
        f"Voided by event {event.id} on {format_time(event.rated_at)}: {event.why or 'no reason is kept'}"
    )
    print_fields((format_change(part.change), part.player) for part in event.players)
