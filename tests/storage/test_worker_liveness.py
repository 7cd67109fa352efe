"""A worker is running when it asked for messages lately, whatever the server counts as idle."""

from __future__ import annotations

from functools import partial

import pytest
from redis.asyncio import Redis

from match_ratings_worker.migration import Shadow, ShadowRunning
from match_ratings_worker.storage.redis_keys import Keys
from match_ratings_worker.storage.stream_pages import server_time
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER, group_consumers, has_worker
from tests.support.waiting import eventually

#: A worker that is silent for longer does not count as running, in ms.
IDLE = 50


async def join(redis: Redis, keys: Keys, name: str, *, beat_ms_ago: int | None = None) -> None:
    """Put a consumer into the group, with a heartbeat."""
    await redis.execute_command("XGROUP", "CREATECONSUMER", keys.inbox, keys.group, name)
    if beat_ms_ago is not None:
        beat = await server_time(redis, keys.inbox) - beat_ms_ago
        await redis.execute_command("HSET", keys.heartbeats, name, beat)


async def silent(redis: Redis, keys: Keys) -> bool:
    """Whether the server counts every consumer as idle for long."""
    consumers = await redis.xinfo_consumers(keys.inbox, keys.group)
    return all(consumer["idle"] > 2 * IDLE for consumer in consumers)


@pytest.fixture(params=[False, True], ids=["live", "shadow"])
async def keys(request: pytest.FixtureRequest, redis: Redis, ladder: str) -> Keys:
    found = Keys(ladder, shadow=request.param)
    await redis.xgroup_create(found.inbox, found.group, "0", mkstream=True)
    return found


async def test_a_worker_with_a_recent_heartbeat_runs_however_long_the_server_counts_it_as_idle(
    redis: Redis, keys: Keys
) -> None:
    await join(redis, keys, "w-1")
    await eventually(partial(silent, redis, keys))
    assert not await has_worker(redis, keys, IDLE)
    await join(redis, keys, "w-1", beat_ms_ago=0)
    assert await has_worker(redis, keys, IDLE)


async def test_a_worker_without_a_recent_heartbeat_is_gone(redis: Redis, keys: Keys) -> None:
    await join(redis, keys, "w-1", beat_ms_ago=10_000)
    await eventually(partial(silent, redis, keys))
    assert not await has_worker(redis, keys, IDLE)


async def test_the_handover_consumer_is_no_worker(redis: Redis, keys: Keys) -> None:
    await join(redis, keys, HANDOVER_CONSUMER, beat_ms_ago=0)
    consumers = await group_consumers(redis, keys, 60_000)
    assert consumers is not None and [consumer.live for consumer in consumers] == [False]
    assert not await has_worker(redis, keys, 60_000)


async def test_without_a_group_there_is_no_worker(redis: Redis, ladder: str) -> None:
    assert await group_consumers(redis, Keys(ladder), 60_000) is None
    assert not await has_worker(redis, Keys(ladder), 60_000)


async def test_a_shadow_whose_worker_has_a_recent_heartbeat_is_not_cleared(redis: Redis, ladder: str) -> None:
    shadow_keys = Keys(ladder, shadow=True)
    await redis.xgroup_create(shadow_keys.inbox, shadow_keys.group, "0", mkstream=True)
    await join(redis, shadow_keys, "w-1")
    await eventually(partial(silent, redis, shadow_keys))
    await join(redis, shadow_keys, "w-1", beat_ms_ago=0)
    with pytest.raises(ShadowRunning, match="w-1"):
        await Shadow(redis, ladder).clear(IDLE)
    assert await redis.exists(shadow_keys.heartbeats)
    await redis.execute_command("HSET", shadow_keys.heartbeats, "w-1", 1)
    await Shadow(redis, ladder).clear(IDLE)
    assert not await redis.exists(shadow_keys.heartbeats)
