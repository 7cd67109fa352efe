"""Void matches: send the messages to the workers, and read the results from receipts and dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Final

from match_ratings import MatchVoided, RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.backoff import Backoff
from match_ratings_worker.ledger import Ledger
from match_ratings_worker.storage import (
    DeadLetterEntry,
    LadderHandle,
    Receipt,
    entries,
    server_time,
    stream_id_ms,
)

from .find_voidable_matches import find_voidable_match
from .void_results import VoidResult, VoidStatus

#: Messages sent, and receipts read, in one step.
_PAGE: Final = 500


async def void_match(ladder: LadderHandle, match_id: str, why: str, *, timeout: float) -> VoidResult:
    """Void one match if that is possible; WAITING when no worker has done it after `timeout` seconds."""
    found = await find_voidable_match(ladder, match_id)
    if found.status is not VoidStatus.RATED or found.match is None:
        return found
    [result] = await void_matches(ladder, [found.match], why, timeout=timeout)
    return result


async def void_matches(
    ladder: LadderHandle, matches: Sequence[RatingUpdated], why: str, *, timeout: float
) -> list[VoidResult]:
    """Void matches in this order; see `wait_for_voids` about `timeout`."""
    sent = [result async for page in send_voids(ladder, matches, why) for result in page]
    return [result async for page in wait_for_voids(ladder, sent, timeout=timeout) for result in page]


async def send_voids(
    ladder: LadderHandle, matches: Sequence[RatingUpdated], why: str
) -> AsyncIterator[list[VoidResult]]:
    """Send the void messages in this order and yield them, WAITING, in pages."""
    keys = ladder.keys
    for start in range(0, len(matches), _PAGE):
        page, now = matches[start : start + _PAGE], await server_time(ladder.redis, keys.inbox)
        async with ladder.redis.pipeline(transaction=False) as pipe:
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
            VoidResult(match.match_id or "", VoidStatus.WAITING, match, message_id=message_id.decode())
            for match, message_id in zip(page, ids, strict=True)
        ]


async def wait_for_voids(
    ladder: LadderHandle, sent: Iterable[VoidResult], *, timeout: float
) -> AsyncIterator[list[VoidResult]]:
    """Yield the results of sent voids as they arrive.

    Ends with those still WAITING when there has been no result for `timeout` seconds.
    """
    waiting = {result.message_id: result for result in sent}
    letters_from = f"{min(map(stream_id_ms, waiting), default=0)}-0"
    backoff, progress_at = Backoff(0.005, 0.2), time.monotonic()
    while waiting:
        settled, letters_from = await _refused(ladder, waiting, letters_from)
        settled += await _voided(ladder, list(waiting.values())[:_PAGE])
        for result in settled:
            waiting.pop(result.message_id, None)
        if settled:
            backoff, progress_at = Backoff(0.005, 0.2), time.monotonic()
            yield settled
            continue
        if time.monotonic() - progress_at >= timeout:
            yield list(waiting.values())
            return
        await asyncio.sleep(backoff.next_pause())


async def _voided(ladder: LadderHandle, waiting: Sequence[VoidResult]) -> list[VoidResult]:
    """Those that workers have voided."""
    keys = [ladder.keys.void_receipt_ + result.match_id for result in waiting]
    receipts = await ladder.redis.mget(keys) if keys else []
    settled = []
    for result, receipt in zip(waiting, receipts, strict=True):
        if ledger_id := Receipt.parse(receipt).ledger_id:
            void = await Ledger(ladder).event_at(ledger_id)
            settled.append(replace(result, status=VoidStatus.VOIDED, void=void))
    return settled


async def _refused(
    ladder: LadderHandle, waiting: dict[str, VoidResult], oldest: str
) -> tuple[list[VoidResult], str]:
    """Those that became dead letters from `oldest` on; and where to go on reading."""
    settled = []
    async for entry in entries(ladder.redis, ladder.keys.dead_letters, oldest=oldest):
        letter = DeadLetterEntry.from_entry(entry)
        oldest = f"({letter.id}"
        result = waiting.pop(letter.source_id, None)
        if result is not None:
            detail = f"{letter.detail} (dead letter {letter.id})"
            settled.append(replace(result, status=VoidStatus.REFUSED, detail=detail))
    return settled, oldest
