"""What the mixin relies on in redis-py: these fail when redis-py changes underneath."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import TimeoutError as RedisTimeout

from embedded import Endpoint
from match_ratings_worker.storage.hiredis_packing import HiredisPacking, with_hiredis_packing
from match_ratings_worker.storage.redis_connection import connect

#: A packed command; `unread_connection` never gets rid of it.
LARGE = b"x" * 1_000_000


@asynccontextmanager
async def unread_connection(timeout: float) -> AsyncIterator[Any]:
    """A connection to a server that accepts it and never reads."""
    done = asyncio.Event()

    async def drain() -> None:
        connection.draining.set()
        await done.wait()

    async def never_read(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    listening = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1)
    port = listening.sockets[0].getsockname()[1]
    connection: Any = with_hiredis_packing(Connection)(host="127.0.0.1", port=port, socket_timeout=timeout)
    connection.draining = asyncio.Event()
    connection._reader, connection._writer = await asyncio.open_connection("127.0.0.1", port)
    # As when the sockets of both sides are full. (Python 3.12 and 3.13.0 return from drain all the same.)
    connection._writer.drain = drain
    try:
        yield connection
    finally:
        await connection.disconnect(nowait=True)
        done.set()
        listening.close()


@pytest.mark.parametrize(
    "base", [Connection, SSLConnection, UnixDomainSocketConnection, SentinelManagedConnection]
)
def test_it_takes_precedence_over_each_connection_class(base: type[Any]) -> None:
    mixed = with_hiredis_packing(base)
    for name in ("pack_command", "send_packed_command"):
        assert hasattr(base, name) and getattr(mixed, name) is getattr(HiredisPacking, name)


async def test_clients_pack_with_hiredis(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[tuple[Any, ...]] = []

    def pack(args: tuple[Any, ...]) -> bytes:
        packed.append(args)
        return bytes(original(args))

    original = hiredis.pack_command
    monkeypatch.setattr(hiredis, "pack_command", pack)
    async with connect(server.url) as redis:
        assert await redis.echo("x" * 3) == b"xxx"
        # A command of two words goes out as two arguments
        assert await redis.object("ENCODING", "no such key") is None
        assert await redis.client_getname() is None
    assert ("ECHO", "xxx") in packed and ("CLIENT", "GETNAME") in packed


async def test_a_send_ends_at_the_timeout_of_the_socket() -> None:
    async with unread_connection(0.1) as connection:
        with pytest.raises(RedisTimeout, match="Timeout writing to socket"):
            await connection.send_packed_command([LARGE])
        assert connection.socket_timeout == 0.1


async def test_a_send_is_not_wrapped_in_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given asyncio.wait_for, which may swallow a cancellation on Python 3.11
    def wait_for(*_: object) -> None:
        msg = "redis-py takes its timeout from elsewhere now"
        raise AssertionError(msg)

    async with unread_connection(30) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "wait_for", wait_for)
            # When a send is cancelled in the middle
            sending = asyncio.create_task(connection.send_packed_command([LARGE]))
            await connection.draining.wait()
            sending.cancel()
            # Then it ends long before the timeout, and the connection's timeout is as it was
            begun = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert time.monotonic() - begun < 20
        assert connection.socket_timeout == 30
