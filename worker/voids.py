"""Taking matches back: finds what can be taken back, asks the workers for it, and hears what became of it.

Nothing here changes a rating: a `MatchVoided` message goes through the inbox like any other, so that it
keeps its place in the order of its players' matches and has its effect once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from redis.asyncio import Redis

from contracts import Cause, MatchVoided, RatingUpdated
from contracts.names import FIELD
from worker import queries
from worker.audit.books import Books
from worker.audit.compare import stored_state
from worker.keys import Keys
from worker.queries.ledger import event_at
from worker.queries.streams import entries
from worker.rating import InvalidGame, RatingSystem, State
from worker.validation import CLOCK_SKEW_MS

__all__ = ["Outcome", "Verdict", "find", "games_of", "refusals", "send", "wait"]

#: Messages that are sent, and receipts that are asked for, in one step.
_PAGE: Final = 500
#: The shortest and the longest pause between two looks at what became of them, in seconds.
_PAUSES: Final = (0.005, 0.2)


class Verdict(StrEnum):
    """What became of a match that was to be taken back."""

    #: It can be taken back.
    RATED = "rated"
    #: It is taken back.
    VOIDED = "voided"
    #: It had been taken back before.
    ALREADY = "already-voided"
    #: Nothing of it is kept.
    UNKNOWN = "unknown"
    #: It changed no rating, or has not yet.
    NOT_RATED = "not-rated"
    #: It was rated, but its event is no longer in Redis.
    NOT_KEPT = "not-kept"
    #: The workers, or the system's rules, refuse it.
    REFUSED = "refused"
    #: Nobody has taken up the message yet.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A match and what became of taking it back."""

    match_id: str
    verdict: Verdict
    #: The match's own event.
    match: RatingUpdated | None = None
    #: The event that took it back.
    void: RatingUpdated | None = None
    #: One sentence, where there is more to say.
    detail: str = ""
    #: The message's id in the inbox, once it is sent.
    message_id: str = ""


async def find(redis: Redis, keys: Keys, match_id: str) -> Outcome:
    """What is known of a match: RATED when it can be taken back. Raises Unreadable."""
    trace = await queries.trace(redis, keys, match_id, await queries.server_time(redis, keys.inbox))
    if trace.voided is not None:
        return Outcome(match_id, Verdict.ALREADY, trace.event, trace.voided)
    if trace.event is not None:
        if trace.event.cause is Cause.MATCH:
            return Outcome(match_id, Verdict.RATED, trace.event)
        return Outcome(match_id, Verdict.NOT_RATED, detail=f"it is a {trace.event.cause.value}, not a match")
    if trace.outcome == "trimmed":
        return Outcome(
            match_id, Verdict.NOT_KEPT, detail=f"its event {trace.ledger_id} is no longer in Redis"
        )
    details = {
        "aside": "it changed no rating by the rules",
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
    async for event in queries.mentions(redis, keys, player, oldest):
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
    books = Books(redis, keys, system, horizon=0)
    states: dict[str, State | None] = {}
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        look = await books.look([(name, 2**53) for name in page])
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


async def send(redis: Redis, matches: Sequence[RatingUpdated], why: str) -> AsyncIterator[list[Outcome]]:
    """Puts the messages that take matches back into their inbox, in this order, some at a time."""
    for start in range(0, len(matches), _PAGE):
        page, now = matches[start : start + _PAGE], int(time.time() * 1000)
        async with redis.pipeline(transaction=False) as pipe:
            for match in page:
                message = MatchVoided(
                    match_id=match.match_id or "",
                    ladder=match.ladder,
                    players=(match.players[0].player, match.players[1].player),
                    why=why,
                    ledger_id=match.id,
                    finished_at=now,
                )
                pipe.xadd(Keys(match.ladder).inbox, {FIELD: message.model_dump_json()})
            ids = await pipe.execute()
        yield [
            Outcome(match.match_id or "", Verdict.WAITING, match, message_id=message_id.decode())
            for match, message_id in zip(page, ids, strict=True)
        ]


async def wait(
    redis: Redis, keys: Keys, sent: Iterable[Outcome], *, patience: float
) -> AsyncIterator[list[Outcome]]:
    """What becomes of messages that were sent, as it becomes known, in their order as far as possible.

    Ends with those that still wait when for `patience` seconds nothing has become known.
    """
    waiting = {outcome.message_id: outcome for outcome in sent}
    letters = f"{min((int(key.partition('-')[0]) for key in waiting), default=0)}-0"
    pause, moved = _PAUSES[0], time.monotonic()
    while waiting:
        refused, letters = await _refused(redis, keys, waiting, letters)
        settled = refused + await _voided(redis, keys, list(waiting.values()))
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
    """Those of the oldest that wait that have been taken back."""
    page = waiting[:_PAGE]
    receipts = await redis.mget([keys.void_ + outcome.match_id for outcome in page])
    settled = []
    for outcome, receipt in zip(page, receipts, strict=True):
        place = (receipt or b"?").partition(b" ")[0].decode("utf-8", "replace")
        if place in ("?", "-"):
            continue
        void = await event_at(redis, keys, place)
        settled.append(
            Outcome(outcome.match_id, Verdict.VOIDED, outcome.match, void, message_id=outcome.message_id)
        )
    return settled


async def _refused(
    redis: Redis, keys: Keys, waiting: dict[str, Outcome], after: str
) -> tuple[list[Outcome], str]:
    """Those that have become dead letters, from a place in their stream on; and the next place."""
    settled = []
    async for letter_id, fields in entries(redis, keys.dead_letters, oldest=after):
        after = f"({letter_id}"
        outcome = waiting.get(fields.get(b"source_id", b"").decode("utf-8", "replace"))
        if outcome is not None:
            detail = fields.get(b"detail", b"").decode("utf-8", "backslashreplace")
            settled.append(
                Outcome(
                    outcome.match_id,
                    Verdict.REFUSED,
                    outcome.match,
                    detail=f"{detail} (dead letter {letter_id})",
                    message_id=outcome.message_id,
                )
            )
    return settled, after
