"""Which workers of a ladder are running: the one answer for every command, job and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from .redis_keys import Keys
from .stream_pages import server_time

#: The consumer name under which stopping workers leave what they could not finish; never a worker.
HANDOVER_CONSUMER: Final = "handover"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a ladder's group: a worker, or the handover consumer."""

    name: str
    #: Messages that it has claimed and not settled.
    pending: int
    #: Time since it last asked for messages, in ms; a running worker asks about once a second.
    idle_ms: int
    #: Whether it is a worker that asked lately enough to count as running.
    live: bool
    #: The share of its time spent working lately, 0-1; None when unknown.
    busy: float | None = None


async def group_consumers(redis: Redis, keys: Keys, idle_ms: int) -> list[Consumer] | None:
    """The consumers of the ladder's group, by name; None when there is no group.

    A worker that is silent for `idle_ms` does not count as running. XINFO alone does not tell: before
    7.2, Redis counts a consumer as idle since it last received a message, however often it asks. So the
    heartbeats count too. Raises RedisError.
    """
    try:
        infos: list[dict[str, Any]] = await redis.xinfo_consumers(keys.inbox, keys.group)
    except ResponseError as error:
        if "NOGROUP" in str(error) or "no such key" in str(error):
            return None
        raise
    heartbeats: dict[bytes, bytes] = await redis.execute_command("HGETALL", keys.heartbeats)
    shares: dict[bytes, bytes] = await redis.execute_command("HGETALL", keys.busy_shares)
    now = await server_time(redis, keys.inbox)
    consumers = []
    for info in infos:
        name = info["name"].decode("utf-8", "backslashreplace")
        since_heartbeat = max(now - int(float(heartbeats.get(info["name"], 0))), 0)
        silent_ms = min(info["idle"], since_heartbeat)
        live = silent_ms < idle_ms and name != HANDOVER_CONSUMER
        busy = _share(shares, info["name"]) if live else None
        consumers.append(Consumer(name, info["pending"], silent_ms, live, busy))
    return sorted(consumers, key=lambda consumer: consumer.name)


async def has_worker(redis: Redis, keys: Keys, idle_ms: int) -> bool:
    """Whether any worker of the ladder is running; one silent for `idle_ms` is not. Raises RedisError."""
    return any(consumer.live for consumer in await group_consumers(redis, keys, idle_ms) or ())


def _share(shares: Mapping[bytes, bytes], consumer: bytes) -> float | None:
    try:
        return float(shares.get(consumer, b"").split()[0])
    except (IndexError, ValueError):
        return None
