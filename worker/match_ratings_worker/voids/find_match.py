"""Which matches can be taken back. Read-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from redis.asyncio import Redis

from match_ratings import Cause, RatingUpdated
from match_ratings_worker import queries
from match_ratings_worker.audit.compare_player import stored_state
from match_ratings_worker.audit.stored_snapshot import SnapshotReader
from match_ratings_worker.rating import InvalidGame, RatingSystem, State
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.units import CLOCK_SKEW_MS
from match_ratings_worker.voids.void_outcome import Outcome, Verdict

__all__ = ["find", "games_of", "refusals"]

#: Players who are read in one step.
_PAGE: Final = 500


async def find(redis: Redis, keys: Keys, match_id: str) -> Outcome:
    """How it stands with a match: RATED when it can be taken back. Raises Unreadable.

    Its receipts tell at once for as long as they are kept; otherwise the ledger is looked through.
    """
    voided = Receipt.parse(await redis.get(keys.void_receipt_ + match_id)).ledger_id
    if voided:
        return Outcome(match_id, Verdict.ALREADY, void=await queries.event_at(redis, keys, voided))
    receipt = Receipt.parse(await redis.get(keys.receipt(match_id)))
    if place := receipt.ledger_id:
        match = await queries.event_at(redis, keys, place)
        if match is None:
            return Outcome(match_id, Verdict.NOT_KEPT, detail=f"its event {place} is no longer in Redis")
        return Outcome(match_id, Verdict.RATED, match)
    if receipt.is_not_rated:
        why = "it changed no rating by the rules"
        if receipt.is_imported:
            why = "it was rated by the rater before this one"
        return Outcome(match_id, Verdict.NOT_RATED, detail=why)
    return await _in_the_ledger(redis, keys, match_id) or await _elsewhere(redis, keys, match_id)


async def _in_the_ledger(redis: Redis, keys: Keys, match_id: str) -> Outcome | None:
    async for event in queries.events_mentioning(redis, keys, match_id):
        if event.match_id == match_id:
            if event.cause is Cause.VOID:
                return Outcome(match_id, Verdict.ALREADY, void=event)
            return Outcome(match_id, Verdict.RATED, event)
        if event.tournament_id == match_id:
            return Outcome(match_id, Verdict.NOT_RATED, detail="it is a tournament, not a match")
    return None


async def _elsewhere(redis: Redis, keys: Keys, match_id: str) -> Outcome:
    trace = await queries.trace(redis, keys, match_id, await queries.server_time(redis, keys.inbox))
    details = {
        "waiting": f"it waits in the inbox as {trace.inbox_id}",
        "dead": f"it is the dead letter {trace.letter.id if trace.letter else '-'}",
    }
    if trace.outcome in details:
        return Outcome(match_id, Verdict.NOT_RATED, detail=details[trace.outcome])
    return Outcome(match_id, Verdict.UNKNOWN)


async def games_of(
    redis: Redis, keys: Keys, player: str, since: int, until: int | None = None
) -> list[RatingUpdated]:
    """The matches of a player that finished from `since` on and before `until` (ms) and still count.

    In the reverse order of the ledger, which is the order to take them back in: each before those that
    it was built on, so that what a system can restore exactly is restored.
    """
    found: list[RatingUpdated] = []
    voided: set[str] = set()
    # A match may have finished a little after it was rated, by another clock.
    oldest = f"{max(since - 2 * CLOCK_SKEW_MS, 0)}-0"
    async for event in queries.events_mentioning(redis, keys, player, oldest):
        if event.match_id is None or all(part.player != player for part in event.players):
            continue
        if event.cause is Cause.VOID:
            voided.add(event.match_id)
        elif event.match_id in voided or event.finished_at < since:
            continue
        elif until is None or event.finished_at < until:
            found.append(event)
    return found


async def refusals(
    redis: Redis, keys: Keys, system: RatingSystem, matches: Iterable[RatingUpdated]
) -> dict[str, str]:
    """Match id -> why the rules will not let it be taken back, by the players' present states."""
    matches = list(matches)
    names = list({part.player for match in matches for part in match.players})
    books = SnapshotReader(redis, keys, system, horizon=0)
    states: dict[str, State | None] = {}
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        look = await books.look([(name, 2**53) for name in page])  # none of their games
        states |= {name: stored_state(held, system) for name, held in zip(page, look.stored, strict=True)}
    found: dict[str, str] = {}
    for match in matches:
        for part in match.players:
            state = states[part.player]
            if state is None or match.match_id is None:
                continue
            try:
                system.void(state, part)
            except InvalidGame as error:
                found[match.match_id] = str(error)
            except KeyError:
                continue  # an event of other rules: the worker will say what it makes of it
    return found
