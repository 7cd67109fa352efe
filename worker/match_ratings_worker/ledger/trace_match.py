"""A ladder's ledger: a player's changes, and what became of a match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

import orjson
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from match_ratings import Cause, RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.storage.dead_letter_entries import DeadLetterEntry, read_dead_letters
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.storage.stream_pages import Entry, Unreadable, age, as_json, entries

if TYPE_CHECKING:
    from match_ratings_worker.ledger.ladder_archive import LadderArchive

__all__ = ["Outcome", "Trace", "changes", "event_at", "events_mentioning", "trace"]

_FIELD = FIELD.encode()


class Outcome(StrEnum):
    """What became of a match or tournament."""

    #: It changed ratings; its event says how.
    RATED = "rated"
    #: It changed ratings, and its event is no longer kept.
    TRIMMED = "trimmed"
    #: It is known, and by the rules it changes no rating.
    NOT_RATED = "not-rated"
    #: It is in the inbox.
    WAITING = "waiting"
    #: It could not be rated.
    DEAD = "dead"
    #: Another rater had rated it, before its ratings were imported.
    BROUGHT = "brought"
    #: Nothing of it is kept.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a match or tournament, by its id."""

    id: str
    outcome: Outcome
    #: rated, trimmed: its place in the ledger.
    ledger_id: str | None = None
    #: rated: its event, and the one that took it back.
    event: RatingUpdated | None = None
    voided: RatingUpdated | None = None
    #: waiting: its id in the inbox, how long it has been there in ms, and the worker that claimed it.
    inbox_id: str | None = None
    waiting_ms: int | None = None
    claimed_by: str | None = None
    #: dead: the latest dead letter with this id.
    letter: DeadLetterEntry | None = None


async def event_at(redis: Redis, keys: Keys, ledger_id: str) -> RatingUpdated | None:
    """The event at a place of the ledger; None when it is no longer kept. Raises Unreadable."""
    found = await redis.xrange(keys.outbox, ledger_id, ledger_id)
    if not found:
        return None
    event = _event((ledger_id, found[0][1]))
    if event is None:
        msg = f"the entry {ledger_id} of {keys.outbox} is not a rating-updated event"
        raise Unreadable(msg)
    return event


async def changes(
    redis: Redis, keys: Keys, player: str, sequence: int, count: int, shelf: LadderArchive | None = None
) -> list[RatingUpdated]:
    """The latest `count` events of a player whose last has this sequence, newest first.

    Fewer when older ones are no longer kept, nor in the archive. The events of recent games are found
    by their receipts; only what these leave out, such as prizes, is looked for in the ledger, from its
    end backwards.
    """
    known = await _recent_events(redis, keys, player, count)
    found: list[RatingUpdated] = []
    newest = "+"
    while sequence > 0 and len(found) < count:
        event = known.pop(sequence, None)
        if event is None:
            below = max((number for number in known if number < sequence), default=None)
            oldest = "-" if below is None else f"({known[below].id}"
            async for candidate in events_mentioning(redis, keys, player, oldest, newest):
                if _sequence(candidate, player):
                    event = candidate
                    break
            else:
                if below is None:
                    break
                event = known.pop(below)
        found.append(event)
        newest, sequence = f"({event.id}", _sequence(event, player) - 1
    if shelf is not None and sequence > 0 and len(found) < count:
        older = shelf.of_player(player, found[-1].id if found else None)
        found += islice(filter(None, map(_archived, older)), count - len(found))
    return found


async def trace(
    redis: Redis, keys: Keys, effect_id: str, now: int, shelf: LadderArchive | None = None
) -> Trace:
    """What became of a match, or tournament, with this id.

    Its receipt tells at once for as long as it is kept, and the archive where there is one. Otherwise
    inbox, dead letters and ledger are looked through, which takes seconds for each million of entries.
    `now` in ms. Raises Unreadable.
    """
    for key in (keys.receipt_ + effect_id, keys.prize_receipt_ + effect_id):
        receipt = Receipt.parse(await redis.get(key))
        if receipt.is_not_rated:
            return Trace(effect_id, Outcome.BROUGHT if receipt.is_imported else Outcome.NOT_RATED)
        if receipt.next_id and await redis.xrange(keys.inbox, receipt.next_id, receipt.next_id):
            return await _waiting(redis, keys, effect_id, receipt.next_id, now)
        if not receipt.is_settled:  # or its message was deleted by hand
            continue
        first = receipt.mark
        event = await event_at(redis, keys, first)
        if event is None and shelf is not None and (raw := shelf.at(first)) is not None:
            event = _archived((first, raw))
        outcome = Outcome.TRIMMED if event is None else Outcome.RATED
        voided = await _void(redis, keys, effect_id)
        return Trace(effect_id, outcome, ledger_id=first, event=event, voided=voided)
    if shelf is not None and (archived := _traced(effect_id, map(_archived, shelf.find(effect_id)))):
        return replace(archived, voided=archived.voided or await _void(redis, keys, effect_id))
    async for entry_id, fields in entries(redis, keys.inbox):
        if _names(fields.get(_FIELD, b""), effect_id):
            return await _waiting(redis, keys, effect_id, entry_id, now)
    async for letter in read_dead_letters(redis, keys):
        if _names(letter.message, effect_id):
            return Trace(effect_id, Outcome.DEAD, letter=letter)
    voided = None
    async for event in events_mentioning(redis, keys, effect_id):
        if effect_id not in (event.match_id, event.tournament_id):
            continue
        if event.cause is not Cause.VOID:
            return Trace(effect_id, Outcome.RATED, ledger_id=event.id, event=event, voided=voided)
        voided = event
    return Trace(effect_id, Outcome.UNKNOWN)


def _traced(effect_id: str, events: Iterable[RatingUpdated | None]) -> Trace | None:
    """What events of a match or tournament tell, oldest first; None when they do not."""
    rated = voided = None
    for event in events:
        if event is not None and event.cause is Cause.VOID:
            voided = event
        elif event is not None:
            rated = event
    if rated is None:
        return None
    return Trace(effect_id, Outcome.RATED, ledger_id=rated.id, event=rated, voided=voided)


async def _void(redis: Redis, keys: Keys, match_id: str) -> RatingUpdated | None:
    """The event that took a match back, as far as its receipt tells."""
    ledger_id = Receipt.parse(await redis.get(keys.void_receipt_ + match_id)).ledger_id
    return await event_at(redis, keys, ledger_id) if ledger_id else None


async def _waiting(redis: Redis, keys: Keys, effect_id: str, entry_id: str, now: int) -> Trace:
    try:
        claims = await redis.xpending_range(keys.inbox, keys.group, entry_id, entry_id, 1)
    except ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        claims = []
    claimed_by = claims[0]["consumer"].decode("utf-8", "backslashreplace") if claims else None
    waited = age(entry_id, now)
    return Trace(effect_id, Outcome.WAITING, inbox_id=entry_id, waiting_ms=waited, claimed_by=claimed_by)


async def _recent_events(redis: Redis, keys: Keys, player: str, count: int) -> dict[int, RatingUpdated]:
    """The events of a player's latest games by the player's sequence, as far as receipts tell."""
    games = await redis.zrevrange(keys.games(player), 0, count + 9)
    if not games:
        return {}
    receipts = await redis.mget([keys.receipt_.encode() + game for game in games])
    async with redis.pipeline(transaction=False) as pipe:
        for receipt in map(Receipt.parse, receipts):
            if receipt.ledger_id:
                pipe.xrange(keys.outbox, receipt.ledger_id, receipt.ledger_id)
        replies = await pipe.execute()
    events = [_event((reply[0][0].decode(), reply[0][1])) for reply in replies if reply]
    return {_sequence(event, player): event for event in events if event and _sequence(event, player)}


async def events_mentioning(
    redis: Redis, keys: Keys, text: str, oldest: str = "-", newest: str = "+"
) -> AsyncIterator[RatingUpdated]:
    """The events with this text as a value somewhere, newest first."""
    needles = as_json(text)
    async for entry in entries(redis, keys.outbox, oldest=oldest, newest=newest, reverse=True):
        raw = entry[1].get(_FIELD, b"")
        if any(needle in raw for needle in needles):
            event = _event(entry)
            if event is not None:
                yield event


def _event(entry: Entry) -> RatingUpdated | None:
    try:
        event = RatingUpdated.model_validate_json(entry[1].get(_FIELD, b""))
    except ValidationError:
        return None
    return event.model_copy(update={"id": entry[0]})


def _archived(event: tuple[str, bytes]) -> RatingUpdated | None:
    return _event((event[0], {_FIELD: event[1]}))


def _sequence(event: RatingUpdated, player: str) -> int:
    """A player's own count of this change; 0 when the event is not about that player."""
    return next((part.sequence for part in event.players if part.player == player), 0)


def _names(raw: bytes, effect_id: str) -> bool:
    """Whether a producer's message says that this match or tournament has finished."""
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(message, dict) or message.get("type") == "match-voided":
        return False
    return effect_id in (message.get("match_id"), message.get("tournament_id"))
