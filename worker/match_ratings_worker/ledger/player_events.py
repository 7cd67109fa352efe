"""One player's events: the latest changes, and the games of a closed rating period."""

from __future__ import annotations

from itertools import islice

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.storage import Receipt

from .read_ledger import Ledger, parse_event


async def recent_changes(ledger: Ledger, player: str, sequence: int, count: int) -> list[RatingUpdated]:
    """The latest `count` events of a player whose last change has this sequence, newest first.

    Fewer when older ones are kept neither in Redis nor in the archive. Receipts point to the events of
    recent games; only the others, such as prizes, are searched for, from the ledger's end backwards.
    """
    known = await _events_by_receipt(ledger, player, count)
    found: list[RatingUpdated] = []
    newest = "+"
    while sequence > 0 and len(found) < count:
        event = known.pop(sequence, None)
        if event is None:
            below = max((number for number in known if number < sequence), default=None)
            oldest = "-" if below is None else f"({known[below].id}"
            async for candidate in ledger.events_mentioning(player, oldest, newest):
                if _sequence(candidate, player):
                    event = candidate
                    break
            else:
                if below is None:
                    break
                event = known.pop(below)
        found.append(event)
        newest, sequence = f"({event.id}", _sequence(event, player) - 1
    if sequence > 0 and len(found) < count:
        older = ledger.archived_events_of_player(player, found[-1].id if found else None)
        found += islice(older, count - len(found))
    return found


async def period_games(ledger: Ledger, event: RatingUpdated, player: str) -> list[str]:
    """The match ids of a player's games behind an event with cause `period`, oldest first.

    To stay small the event has only their number and sums. The games are the player's last ones before
    it, without those that count for nobody and those that were voided. Fewer when they are no longer
    kept. The ledger is read backwards, over the length of the period.
    """
    own = _part(event, player)
    count = int(own.figures.get("period_games_before", 0)) if own else 0
    found: list[str] = []
    voided: set[str] = set()
    async for item in ledger.events_before(event, player):
        own = _part(item, player)
        if own is None:
            continue
        if len(found) == count or item.cause is Cause.PERIOD:
            break
        match_id = item.match_id
        if match_id is not None and item.cause is Cause.VOID:
            voided.add(match_id)
        elif match_id is not None and match_id not in voided and own.figures.get("counted", 1):
            found.append(match_id)
    return found[::-1]


async def _events_by_receipt(ledger: Ledger, player: str, count: int) -> dict[int, RatingUpdated]:
    """Sequence -> event, of the latest games whose receipts are kept."""
    redis, keys = ledger.ladder.redis, ledger.ladder.keys
    games = await redis.zrevrange(keys.games(player), 0, count + 9)
    if not games:
        return {}
    receipts = await redis.mget([keys.receipt_.encode() + game for game in games])
    async with redis.pipeline(transaction=False) as pipe:
        for receipt in map(Receipt.parse, receipts):
            if receipt.ledger_id:
                pipe.xrange(keys.outbox, receipt.ledger_id, receipt.ledger_id)
        replies = await pipe.execute()
    pairs = [reply[0] for reply in replies if reply]
    events = [parse_event(ledger_id.decode(), fields.get(FIELD.encode(), b"")) for ledger_id, fields in pairs]
    return {_sequence(event, player): event for event in events if event and _sequence(event, player)}


def _part(event: RatingUpdated, player: str) -> PlayerUpdate | None:
    return next((part for part in event.players if part.player == player), None)


def _sequence(event: RatingUpdated, player: str) -> int:
    """The player's own count of this change; 0 when the event is not about the player."""
    part = _part(event, player)
    return part.sequence if part else 0
