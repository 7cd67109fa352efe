"""How the ladders are doing: what waits, who works, what was not rated, and what nobody reads."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from match_ratings.stream_names import inbox, scope
from match_ratings_worker.pipeline.ladder_store import HANDOVER_CONSUMER
from match_ratings_worker.storage.dead_letter_entries import read_dead_letters
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.stream_pages import age, server_time, whole

__all__ = ["Consumer", "LadderStatus", "UnservedLadder", "has_worker", "ladder_status", "unserved_ladders"]

#: At most so many dead letters, the newest, are counted by reason.
COUNTED_LETTERS: Final = 100_000

#: What stands before and behind a ladder's name in its inbox's.
_BEFORE, _BEHIND = inbox("x").split("x")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A worker of a ladder, as its consumer group knows it."""

    name: str
    #: Messages that it has claimed and not settled.
    pending: int
    #: How long it has not asked for messages, in ms; a worker that runs asks about once a second.
    idle_ms: int
    #: Whether it asked lately enough to count as running.
    live: bool
    #: The share of its time in which it worked lately, 0-1; None when it does not say.
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class LadderStatus:
    """The state of one ladder."""

    ladder: str
    system: str
    #: Messages in the inbox, claimed ones included.
    backlog: int
    #: Messages that some worker has in hand.
    claimed: int
    #: How long the oldest message has been in the inbox, in ms; None when there is none.
    oldest_waiting_ms: int | None
    workers: tuple[Consumer, ...]
    #: Players on the leaderboard.
    players: int
    #: Events that the ledger keeps.
    events: int
    dead_letters: int
    #: Reason -> dead letters, among the newest 100,000.
    dead_by_reason: dict[str, int]
    #: Outcome -> messages since the ladder's start.
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class UnservedLadder:
    """A ladder whose matches nobody rates now."""

    ladder: str
    #: Messages in its inbox.
    messages: int
    #: No worker has ever read this ladder, or none does now.
    why: Literal["never-read", "no-worker"]
    #: Whether the ladder is in this configuration.
    configured: bool


async def ladder_status(
    redis: Redis, ladder: str, system: str, idle: int, *, shadow: bool = False
) -> LadderStatus:
    """The state of a ladder, or of its shadow; a consumer silent for `idle` ms does not count as running."""
    keys = Keys(ladder, shadow=shadow)
    now = await server_time(redis, keys.inbox)
    async with redis.pipeline(transaction=False) as pipe:
        pipe.xlen(keys.inbox)
        pipe.xrange(keys.inbox, count=1)
        pipe.zcard(keys.leaderboard)
        pipe.xlen(keys.outbox)
        pipe.xlen(keys.dead_letters)
        pipe.hgetall(keys.counts)
        pipe.hgetall(keys.workers)
        backlog, oldest, players, events, dead, counts, shares = await pipe.execute()
    consumers = await _consumers(redis, keys, idle, shares) or ()
    by_reason: Counter[str] = Counter()
    if dead:
        async for letter in read_dead_letters(redis, keys, page=1000):
            by_reason[letter.reason] += 1
            if by_reason.total() == COUNTED_LETTERS:
                break
    return LadderStatus(
        ladder=ladder,
        system=system,
        backlog=backlog,
        claimed=sum(consumer.pending for consumer in consumers),
        oldest_waiting_ms=age(oldest[0][0].decode(), now) if oldest else None,
        workers=tuple(consumer for consumer in consumers if consumer.name != HANDOVER_CONSUMER),
        players=players,
        events=events,
        dead_letters=dead,
        dead_by_reason=dict(by_reason.most_common()),
        counts={
            name.decode("utf-8", "backslashreplace"): whole(count) for name, count in sorted(counts.items())
        },
    )


async def unserved_ladders(redis: Redis, configured: Collection[str], idle: int) -> list[UnservedLadder]:
    """Ladders of the configuration without a worker, and other ladders whose messages nobody reads."""
    found = set(configured)
    async for key in redis.scan_iter(match=f"{_BEFORE}*{_BEHIND}", count=5000, _type="stream"):
        name = key.decode("utf-8", "replace").removeprefix(_BEFORE).removesuffix(_BEHIND)
        with contextlib.suppress(ValueError):  # no ladder's name: no worker could read it
            scope(name)
            found.add(name)
    unread = []
    for ladder in sorted(found):
        messages = await redis.xlen(Keys(ladder).inbox)
        known = ladder in configured
        if not messages and not known:
            continue
        consumers = await _consumers(redis, Keys(ladder), idle)
        shadows = await _consumers(redis, Keys(ladder, shadow=True), idle)
        if shadows is not None:  # it takes the matches as workers do
            consumers = [*(consumers or ()), *shadows]
        if consumers is None:
            unread.append(UnservedLadder(ladder, messages, "never-read", known))
        elif not any(consumer.live for consumer in consumers):
            unread.append(UnservedLadder(ladder, messages, "no-worker", known))
    return unread


async def has_worker(redis: Redis, keys: Keys, idle: int) -> bool:
    """Whether a worker of the ladder is running; one that is silent for `idle` ms is not."""
    found = await _consumers(redis, keys, idle)
    return any(consumer.live for consumer in found or ())


async def _consumers(
    redis: Redis, keys: Keys, idle: int, shares: Mapping[bytes, bytes] | None = None
) -> list[Consumer] | None:
    """The group's consumers, with their busy shares as they left them; None when there is no group."""
    try:
        infos: list[dict[str, Any]] = await redis.xinfo_consumers(keys.inbox, keys.group)
    except ResponseError as error:
        if "NOGROUP" in str(error) or "no such key" in str(error):
            return None
        raise
    # Redis 7.0 counts a consumer as silent since it last got a message; workers say otherwise.
    seen: dict[bytes, bytes] = await redis.execute_command("HGETALL", keys.seen)
    now = time.time() * 1000
    consumers = []
    for info in infos:
        name = info["name"].decode("utf-8", "backslashreplace")
        silent = min(info["idle"], max(int(now - float(seen.get(info["name"], 0))), 0))
        live = silent < idle and name != HANDOVER_CONSUMER
        share = _share((shares or {}).get(info["name"], b"")) if live else None
        consumers.append(Consumer(name, info["pending"], silent, live, share))
    return sorted(consumers, key=lambda consumer: consumer.name)


def _share(text: bytes) -> float | None:
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return None
