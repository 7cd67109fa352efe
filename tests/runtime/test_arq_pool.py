"""What arq's resilient pool relies on in redis-py: these fail when redis-py changes underneath."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import ConnectionError, WatchError

from embedded import Server
from match_ratings_worker.runtime.arq_pool import ResilientArqPool, ResilientPipeline, RetryForever, arq_pool
from tests.support.waiting import eventually


@pytest.fixture
async def pool(own_server: Server) -> AsyncIterator[ResilientArqPool]:
    """The pool of a worker at a server of its own."""
    pool = arq_pool(own_server.url, json.dumps, json.loads)
    yield pool
    await pool.aclose(close_connection_pool=True)


async def break_connections(server: Server) -> None:
    """Close all connections to the server."""
    async with Redis.from_url(server.url) as redis:
        await redis.client_kill_filter(_type="normal", skipme=True)


def test_each_connection_has_the_pools_own_retry(own_server: Server) -> None:
    pool = arq_pool(own_server.url, json.dumps, json.loads)
    retries = [pool.connection_pool.make_connection().retry for _ in range(2)]
    assert isinstance(retries[0], RetryForever) and retries[0] is retries[1]


async def test_a_command_waits_for_a_lost_redis(
    own_server: Server, pool: ResilientArqPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await pool.set("key", "value")
    own_server.kill()
    attempts, connections = 0, pool.connection_pool.connection_class
    connect: Any = connections._connect

    async def counted(connection: Any) -> None:
        nonlocal attempts
        attempts += 1
        await connect(connection)

    monkeypatch.setattr(connections, "_connect", counted)
    waiting = asyncio.ensure_future(pool.get("key"))
    await eventually(lambda: attempts >= 3)
    assert not waiting.done()
    await asyncio.to_thread(own_server.start)
    async with asyncio.timeout(20):
        await waiting


async def test_a_pipeline_executes_commands_before_multi_one_by_one(
    pool: ResilientArqPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = []

    async def execute(pipe: Any, *args: Any, **options: Any) -> Any:
        executed.append(args[0])
        return await original(pipe, *args, **options)

    original = ResilientPipeline.immediate_execute_command
    monkeypatch.setattr(ResilientPipeline, "immediate_execute_command", execute)
    async with pool.pipeline() as pipe:
        await pipe.watch("key")
        await pipe.get("key")
        pipe.multi()
        pipe.set("key", "value")
        await pipe.execute()
    assert executed[:2] == ["WATCH", "GET"] and "SET" not in executed


async def test_a_lost_connection_is_a_watch_error_in_redis_py_and_none_here(
    own_server: Server, pool: ResilientArqPool
) -> None:
    # Given redis-py's own pipeline, whose connection is lost after WATCH
    plain = Pipeline(pool.connection_pool, pool.response_callbacks, True, None)
    await plain.watch("key")
    await break_connections(own_server)
    with pytest.raises(WatchError):
        await plain.get("key")
    await plain.aclose()
    # When the same happens to ours, then it goes on, and watches the same keys
    async with pool.pipeline() as pipe:
        await pipe.watch("key")
        await break_connections(own_server)
        assert await pipe.get("key") is None
        async with Redis.from_url(own_server.url) as other:
            await other.set("key", "theirs")
        pipe.multi()
        pipe.set("key", "ours")
        with pytest.raises(WatchError):
            await pipe.execute()


async def test_once_the_main_task_is_done_nothing_is_retried(
    own_server: Server, pool: ResilientArqPool
) -> None:
    # Given a pool whose first user, arq's main task, has ended, and a server that is gone
    await asyncio.ensure_future(pool.set("key", "value"))
    own_server.kill()
    # Then commands fail at once, but not arq's last one
    async with asyncio.timeout(10):
        with pytest.raises((ConnectionError, OSError)):
            await pool.get("key")
        assert await pool.delete("key") == 0
