"""Which games a closed rating period had."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from redis.asyncio import Redis

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.ledger.trace_match import Outcome, Trace, event_at, events_mentioning
from match_ratings_worker.storage.keys import Keys

if TYPE_CHECKING:
    from match_ratings_worker.ledger.ladder_archive import LadderArchive

__all__ = ["period_games", "trace_event"]


async def period_games(
    redis: Redis, keys: Keys, event: RatingUpdated, player: str, shelf: LadderArchive | None = None
) -> list[str]:
    """The match ids of the games behind a player's part of an event with cause `period`, oldest first.

    The event itself has only their number and sums, so that it stays small: the games are the player's
    last so many before it, without those that count for nobody and those that were taken back. Fewer,
    where neither the ledger nor the archive keeps them. Both are read backwards, for as long as the
    period was. Raises RedisError.
    """
    count = int(_part(event, player).figures.get("period_games_before", 0))
    found: list[str] = []
    taken_back: set[str] = set()
    async for item in _before(redis, keys, event, player, shelf):
        own = [part for part in item.players if part.player == player]
        if not own:
            continue
        if len(found) == count or item.cause is Cause.PERIOD:
            break
        match_id = item.match_id
        if match_id is not None and item.cause is Cause.VOID:
            taken_back.add(match_id)
        elif match_id is not None and match_id not in taken_back and own[0].figures.get("counted", 1):
            found.append(match_id)
    return found[::-1]


async def trace_event(
    redis: Redis, keys: Keys, ledger_id: str, shelf: LadderArchive | None = None
) -> Trace | None:
    """An event by its place in the ledger or the archive; None when there is none. Raises Unreadable."""
    event = await event_at(redis, keys, ledger_id)
    raw = shelf.at(ledger_id) if event is None and shelf is not None else None
    if raw is not None:
        event = RatingUpdated.model_validate_json(raw).model_copy(update={"id": ledger_id})
    return None if event is None else Trace(ledger_id, Outcome.RATED, ledger_id=ledger_id, event=event)


async def _before(
    redis: Redis, keys: Keys, event: RatingUpdated, player: str, shelf: LadderArchive | None
) -> AsyncIterator[RatingUpdated]:
    """A player's events before one, newest first."""
    last = event.id or "0-0"
    async for item in events_mentioning(redis, keys, player, newest=f"({last}"):
        yield item
        last = item.id or last
    for ledger_id, raw in shelf.of_player(player, last) if shelf is not None else ():
        yield RatingUpdated.model_validate_json(raw).model_copy(update={"id": ledger_id})


def _part(event: RatingUpdated, player: str) -> PlayerUpdate:
    return next(part for part in event.players if part.player == player)
