"""Traces a match, tournament or event by its id: rated, waiting, dead, or not known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import orjson
from redis.exceptions import ResponseError

from match_ratings import Cause, RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.storage import (
    DeadLetterEntry,
    Receipt,
    age,
    entries,
    is_stream_id,
    read_dead_letters,
)

from .read_ledger import Ledger

_FIELD: Final = FIELD.encode()


class MatchOutcome(StrEnum):
    """The outcome of a match or tournament."""

    #: It changed ratings; its event is kept.
    RATED = "rated"
    #: It changed ratings; its event is no longer kept.
    TRIMMED = "trimmed"
    #: The rules let it change no rating.
    NOT_RATED = "not-rated"
    #: It is in the inbox.
    WAITING = "waiting"
    #: It could not be rated.
    DEAD = "dead"
    #: Another rater had rated it before its ratings were imported.
    IMPORTED = "imported"
    #: Nothing of it is kept.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything known of a match or tournament."""

    id: str
    outcome: MatchOutcome
    #: rated, trimmed: the id of its event.
    ledger_id: str | None = None
    #: rated: its event, and the one that voided it.
    event: RatingUpdated | None = None
    voided: RatingUpdated | None = None
    #: waiting: its id in the inbox, its age there in ms, and the worker that claimed it.
    inbox_id: str | None = None
    waiting_ms: int | None = None
    claimed_by: str | None = None
    #: dead: its latest dead letter.
    letter: DeadLetterEntry | None = None


async def trace(ledger: Ledger, wanted: str, now: int) -> Trace:
    """Traces the match, tournament or ledger event with this id; `now` in ms.

    The receipt answers at once for as long as it is kept, and so does the archive. Otherwise inbox, dead
    letters and ledger are searched, which takes seconds per million entries. Raises Unreadable.
    """
    found = await _by_receipt(ledger, wanted, now) or await _by_archive(ledger, wanted)
    found = found or await _by_search(ledger, wanted, now)
    if found is None and is_stream_id(wanted) and (event := await ledger.event_at(wanted)):
        return Trace(wanted, MatchOutcome.RATED, ledger_id=wanted, event=event)
    return found or Trace(wanted, MatchOutcome.UNKNOWN)


async def _by_receipt(ledger: Ledger, effect_id: str, now: int) -> Trace | None:
    redis, keys = ledger.ladder.redis, ledger.ladder.keys
    for key in (keys.receipt_ + effect_id, keys.prize_receipt_ + effect_id):
        receipt = Receipt.parse(await redis.get(key))
        if receipt.is_not_rated:
            return Trace(effect_id, MatchOutcome.IMPORTED if receipt.is_imported else MatchOutcome.NOT_RATED)
        if receipt.next_id and await redis.xrange(keys.inbox, receipt.next_id, receipt.next_id):
            return await _waiting(ledger, effect_id, receipt.next_id, now)
        if not receipt.is_settled:  # or its message was deleted by hand
            continue
        event = await ledger.event_at(receipt.mark)
        outcome = MatchOutcome.TRIMMED if event is None else MatchOutcome.RATED
        voided = await _void(ledger, effect_id)
        return Trace(effect_id, outcome, ledger_id=receipt.mark, event=event, voided=voided)
    return None


async def _by_archive(ledger: Ledger, effect_id: str) -> Trace | None:
    events = ledger.archived_events_of(effect_id)
    rated = [event for event in events if event.cause is not Cause.VOID]
    if not rated:
        return None
    voids = [event for event in events if event.cause is Cause.VOID]
    found = Trace(effect_id, MatchOutcome.RATED, ledger_id=rated[-1].id, event=rated[-1])
    return replace(found, voided=voids[-1] if voids else await _void(ledger, effect_id))


async def _by_search(ledger: Ledger, effect_id: str, now: int) -> Trace | None:
    redis, keys = ledger.ladder.redis, ledger.ladder.keys
    async for entry_id, fields in entries(redis, keys.inbox):
        if _names(fields.get(_FIELD, b""), effect_id):
            return await _waiting(ledger, effect_id, entry_id, now)
    async for letter in read_dead_letters(redis, keys):
        if _names(letter.message, effect_id):
            return Trace(effect_id, MatchOutcome.DEAD, letter=letter)
    voided = None
    async for event in ledger.events_mentioning(effect_id):
        if effect_id not in (event.match_id, event.tournament_id):
            continue
        if event.cause is not Cause.VOID:
            return Trace(effect_id, MatchOutcome.RATED, ledger_id=event.id, event=event, voided=voided)
        voided = event
    return None


async def _void(ledger: Ledger, match_id: str) -> RatingUpdated | None:
    """The event that voided a match, if its receipt is kept."""
    key = ledger.ladder.keys.void_receipt_ + match_id
    ledger_id = Receipt.parse(await ledger.ladder.redis.get(key)).ledger_id
    return await ledger.event_at(ledger_id) if ledger_id else None


async def _waiting(ledger: Ledger, effect_id: str, inbox_id: str, now: int) -> Trace:
    redis, keys = ledger.ladder.redis, ledger.ladder.keys
    try:
        claims = await redis.xpending_range(keys.inbox, keys.group, inbox_id, inbox_id, 1)
    except ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        claims = []
    return Trace(
        effect_id,
        MatchOutcome.WAITING,
        inbox_id=inbox_id,
        waiting_ms=age(inbox_id, now),
        claimed_by=claims[0]["consumer"].decode("utf-8", "backslashreplace") if claims else None,
    )


def _names(raw: bytes, effect_id: str) -> bool:
    """Whether a producer's message reports this match or tournament as finished."""
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(message, dict) or message.get("type") == "match-voided":
        return False
    return effect_id in (message.get("match_id"), message.get("tournament_id"))
