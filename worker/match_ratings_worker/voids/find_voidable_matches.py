"""Find matches that can be voided: one by its id, or those of a player in a period. Read-only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.ledger import Ledger, trace
from match_ratings_worker.rating import InvalidGame, State
from match_ratings_worker.storage import LadderHandle, Receipt, parse_state, server_time, stored_fields
from match_ratings_worker.time_units import CLOCK_SKEW_MS

from .void_results import VoidResult, VoidStatus

#: Players whose states are read in one step.
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class PlayerVoidPlan:
    """A player's matches that can be voided, in the order to do it in, and those that the rules refuse."""

    player: str
    matches: list[RatingUpdated]
    refused: list[VoidResult]


async def find_voidable_match(ladder: LadderHandle, match_id: str) -> VoidResult:
    """The status of a match: RATED when it can be voided. Raises Unreadable.

    Its receipts answer at once for as long as they are kept; after that the ledger is searched.
    """
    redis, keys, ledger = ladder.redis, ladder.keys, Ledger(ladder)
    if voided := Receipt.parse(await redis.get(keys.void_receipt_ + match_id)).ledger_id:
        void = await ledger.event_at(voided)
        return VoidResult(match_id, VoidStatus.ALREADY, void=void)
    receipt = Receipt.parse(await redis.get(keys.receipt(match_id)))
    if receipt.ledger_id:
        match = await ledger.event_at(receipt.ledger_id)
        if match is None:
            detail = f"its event {receipt.ledger_id} is no longer in Redis"
            return VoidResult(match_id, VoidStatus.NOT_KEPT, detail=detail)
        return await _unless_refused(ladder, match_id, match)
    if receipt.is_not_rated:
        why = "it changed no rating by the rules"
        if receipt.is_imported:
            why = "it was rated by the rater before this one"
        return VoidResult(match_id, VoidStatus.NOT_RATED, detail=why)
    async for event in ledger.events_mentioning(match_id):
        if event.match_id == match_id:
            if event.cause is Cause.VOID:
                return VoidResult(match_id, VoidStatus.ALREADY, void=event)
            return await _unless_refused(ladder, match_id, event)
        if event.tournament_id == match_id:
            detail = "it is a tournament, not a match"
            return VoidResult(match_id, VoidStatus.NOT_RATED, detail=detail)
    return await _outside_ledger(ladder, match_id)


async def _unless_refused(ladder: LadderHandle, match_id: str, match: RatingUpdated) -> VoidResult:
    refused = (await refused_by_rules(ladder, [match])).get(match_id)
    if refused is not None:
        return VoidResult(match_id, VoidStatus.REFUSED, match, detail=refused)
    return VoidResult(match_id, VoidStatus.RATED, match)


async def _outside_ledger(ladder: LadderHandle, match_id: str) -> VoidResult:
    now = await server_time(ladder.redis, ladder.keys.inbox)
    traced = await trace(Ledger(ladder), match_id, now)
    details = {
        "waiting": f"it waits in the inbox as {traced.inbox_id}",
        "dead": f"it is the dead letter {traced.letter.id if traced.letter else '-'}",
    }
    if traced.outcome in details:
        return VoidResult(match_id, VoidStatus.NOT_RATED, detail=details[traced.outcome])
    return VoidResult(match_id, VoidStatus.UNKNOWN)


async def matches_of_player(
    ladder: LadderHandle, player: str, since: int, until: int | None = None
) -> list[RatingUpdated]:
    """A player's matches that finished from `since` on and before `until` (ms) and are not voided.

    Newest in the ledger first, which is the order to void them in: each before those it was built on, so
    that a system that can restore a state exactly does.
    """
    found: list[RatingUpdated] = []
    voided: set[str] = set()
    # By another clock a match may finish a little after it was rated.
    oldest = f"{max(since - 2 * CLOCK_SKEW_MS, 0)}-0"
    async for event in Ledger(ladder).events_mentioning(player, oldest):
        if event.match_id is None or all(part.player != player for part in event.players):
            continue
        if event.cause is Cause.VOID:
            voided.add(event.match_id)
        elif event.match_id in voided or event.finished_at < since:
            continue
        elif until is None or event.finished_at < until:
            found.append(event)
    return found


async def plan_player_voids(
    ladder: LadderHandle, player: str, since: int, until: int | None
) -> PlayerVoidPlan | None:
    """Plan the voids of `matches_of_player`; None for an unknown player."""
    if not await ladder.redis.exists(ladder.keys.player(player)):
        return None
    matches = await matches_of_player(ladder, player, since, until)
    refusals = await refused_by_rules(ladder, matches)
    refused = [
        VoidResult(match.match_id, VoidStatus.REFUSED, match, detail=refusals[match.match_id])
        for match in matches
        if match.match_id is not None and match.match_id in refusals
    ]
    return PlayerVoidPlan(player, [match for match in matches if match.match_id not in refusals], refused)


async def refused_by_rules(ladder: LadderHandle, matches: Iterable[RatingUpdated]) -> dict[str, str]:
    """Match id -> why the rules refuse to void it, by the players' present states."""
    matches = list(matches)
    states = await _states(ladder, list({part.player for match in matches for part in match.players}))
    found: dict[str, str] = {}
    for match in matches:
        for part in match.players:
            state = states[part.player]
            if state is None or match.match_id is None:
                continue
            try:
                ladder.system.void(state, part)
            except InvalidGame as error:
                found[match.match_id] = str(error)
            except KeyError:
                continue  # an event of other rules: the worker decides
    return found


async def _states(ladder: LadderHandle, players: list[str]) -> dict[str, State | None]:
    """Player -> stored state; None when there is none, or none that can be read."""
    found: dict[str, State | None] = {}
    for start in range(0, len(players), _PAGE):
        page = players[start : start + _PAGE]
        async with ladder.redis.pipeline(transaction=False) as pipe:
            for name in page:
                pipe.hmget(ladder.keys.player(name), list(stored_fields(ladder.system)))
            replies = await pipe.execute(raise_on_error=False)
        for name, values in zip(page, replies, strict=True):
            try:
                found[name] = None if isinstance(values, Exception) else parse_state(values, ladder.system)
            except ValueError:
                found[name] = None
    return found
