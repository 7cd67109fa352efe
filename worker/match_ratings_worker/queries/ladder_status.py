"""The state of the ladders: backlog, workers, dead letters, outcomes, and ladders without workers."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from redis.asyncio import Redis

from match_ratings.stream_names import inbox, scope
from match_ratings_worker.storage import (
    HANDOVER_CONSUMER,
    Consumer,
    Keys,
    LadderHandle,
    age,
    group_consumers,
    read_dead_letters,
    server_time,
    whole,
)

#: The newest dead letters that are counted by reason, at most.
COUNTED_LETTERS: Final = 100_000

#: The parts of an inbox key around the ladder's name.
_BEFORE, _BEHIND = inbox("x").split("x")


@dataclass(frozen=True, slots=True)
class LadderStatus:
    """The state of one ladder."""

    ladder: str
    system: str
    #: Messages in the inbox, claimed ones included.
    backlog: int
    #: Messages claimed by a worker.
    claimed: int
    #: Age of the oldest message in the inbox, in ms; None when the inbox is empty.
    oldest_waiting_ms: int | None
    workers: tuple[Consumer, ...]
    #: Players on the leaderboard.
    players: int
    #: Events in Redis.
    events: int
    dead_letters: int
    #: Reason -> dead letters, among the newest 100,000.
    dead_by_reason: dict[str, int]
    #: Outcome -> messages since the ladder's start.
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class UnservedLadder:
    """A ladder that no worker rates now."""

    ladder: str
    #: Messages in its inbox.
    messages: int
    #: Whether a worker has ever read this ladder.
    why: Literal["never-read", "no-worker"]
    #: Whether the ladder is in this configuration.
    configured: bool


async def ladder_status(ladder: LadderHandle) -> LadderStatus:
    """The state of a ladder, or of its shadow."""
    redis, keys = ladder.redis, ladder.keys
    now = await server_time(redis, keys.inbox)
    async with redis.pipeline(transaction=False) as pipe:
        pipe.xlen(keys.inbox)
        pipe.xrange(keys.inbox, count=1)
        pipe.zcard(keys.leaderboard)
        pipe.xlen(keys.outbox)
        pipe.xlen(keys.dead_letters)
        pipe.hgetall(keys.counts)
        backlog, oldest, players, events, dead, counts = await pipe.execute()
    consumers = await group_consumers(redis, keys, ladder.idle_ms) or ()
    by_reason: Counter[str] = Counter()
    if dead:
        async for letter in read_dead_letters(redis, keys, page=1000):
            by_reason[letter.reason] += 1
            if by_reason.total() == COUNTED_LETTERS:
                break
    return LadderStatus(
        ladder=ladder.name,
        system=ladder.system.name,
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
    """Configured ladders without a worker, and other ladders with messages that no worker reads.

    A worker that was silent for `idle` ms counts as gone.
    """
    found = set(configured)
    async for key in redis.scan_iter(match=f"{_BEFORE}*{_BEHIND}", count=5000, _type="stream"):
        name = key.decode("utf-8", "replace").removeprefix(_BEFORE).removesuffix(_BEHIND)
        with contextlib.suppress(ValueError):  # not a ladder's name: no worker could read it
            scope(name)
            found.add(name)
    unserved = []
    for ladder in sorted(found):
        messages = await redis.xlen(Keys(ladder).inbox)
        known = ladder in configured
        if not messages and not known:
            continue
        consumers = await group_consumers(redis, Keys(ladder), idle)
        shadows = await group_consumers(redis, Keys(ladder, shadow=True), idle)
        if shadows is not None:  # a shadow takes the matches as workers do
            consumers = [*(consumers or ()), *shadows]
        if consumers is None:
            unserved.append(UnservedLadder(ladder, messages, "never-read", known))
        elif not any(consumer.live for consumer in consumers):
            unserved.append(UnservedLadder(ladder, messages, "no-worker", known))
    return unserved
