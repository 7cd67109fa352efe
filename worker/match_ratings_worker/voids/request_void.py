"""Sends the messages that take matches back, and hears from receipts and dead letters what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Final

from redis.asyncio import Redis

from match_ratings import MatchVoided, RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker import queries
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.storage.stream_pages import entries
from match_ratings_worker.voids.void_outcome import Outcome, Verdict

__all__ = ["send", "void_matches", "wait"]

#: Messages that are sent, and receipts that are asked for, in one step.
_PAGE: Final = 500
#: The shortest and the longest pause between two looks at what became of them, in seconds.
_PAUSES: Final = (0.005, 0.2)


async def void_matches(
    redis: Redis, keys: Keys, matches: Sequence[RatingUpdated], why: str, *, patience: float
) -> list[Outcome]:
    """Takes matches back, in this order; those that still wait after `patience` seconds are WAITING."""
    sent = [outcome async for page in send(redis, keys, matches, why) for outcome in page]
    return [outcome async for page in wait(redis, keys, sent, patience=patience) for outcome in page]


async def send(
    redis: Redis, keys: Keys, matches: Sequence[RatingUpdated], why: str
) -> AsyncIterator[list[Outcome]]:
    """Puts the messages that take matches back into the inbox, in this order, some at a time."""
    for start in range(0, len(matches), _PAGE):
        page, now = matches[start : start + _PAGE], await queries.server_time(redis, keys.inbox)
        async with redis.pipeline(transaction=False) as pipe:
            for match in page:
                first, second = match.players
                message = MatchVoided(
                    match_id=match.match_id or "",
                    ladder=match.ladder,
                    players=(first.player, second.player),
                    why=why,
                    ledger_id=match.id,
                    finished_at=now,
                )
                pipe.xadd(keys.inbox, {FIELD: message.model_dump_json()})
            ids = await pipe.execute()
        yield [
            Outcome(match.match_id or "", Verdict.WAITING, match, message_id=message_id.decode())
            for match, message_id in zip(page, ids, strict=True)
        ]


async def wait(
    redis: Redis, keys: Keys, sent: Iterable[Outcome], *, patience: float
) -> AsyncIterator[list[Outcome]]:
    """What becomes of messages that were sent, as it becomes known.

    Ends with those that still wait when for `patience` seconds nothing has become known.
    """
    waiting = {outcome.message_id: outcome for outcome in sent}
    letters = f"{min((int(key.partition('-')[0]) for key in waiting), default=0)}-0"
    pause, moved = _PAUSES[0], time.monotonic()
    while waiting:
        refused, letters = await _refused(redis, keys, waiting, letters)
        settled = refused + await _voided(redis, keys, list(waiting.values())[:_PAGE])
        for outcome in settled:
            waiting.pop(outcome.message_id, None)
        if settled:
            pause, moved = _PAUSES[0], time.monotonic()
            yield settled
            continue
        if time.monotonic() - moved >= patience:
            yield list(waiting.values())
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, _PAUSES[1])


async def _voided(redis: Redis, keys: Keys, waiting: Sequence[Outcome]) -> list[Outcome]:
    """Those that have been taken back."""
    receipts = (
        await redis.mget([keys.void_receipt_ + outcome.match_id for outcome in waiting]) if waiting else []
    )
    settled = []
    for outcome, receipt in zip(waiting, receipts, strict=True):
        if place := Receipt.parse(receipt).ledger_id:
            void = await queries.event_at(redis, keys, place)
            settled.append(replace(outcome, verdict=Verdict.VOIDED, void=void))
    return settled


async def _refused(
    redis: Redis, keys: Keys, waiting: dict[str, Outcome], after: str
) -> tuple[list[Outcome], str]:
    """Those that have become dead letters, from a place in their stream on; and the next place."""
    settled = []
    async for letter_id, fields in entries(redis, keys.dead_letters, oldest=after):
        after = f"({letter_id}"
        outcome = waiting.pop(fields.get(b"source_id", b"").decode("utf-8", "replace"), None)
        if outcome is not None:
            detail = fields.get(b"detail", b"").decode("utf-8", "backslashreplace")
            settled.append(
                replace(outcome, verdict=Verdict.REFUSED, detail=f"{detail} (dead letter {letter_id})")
            )
    return settled, after
