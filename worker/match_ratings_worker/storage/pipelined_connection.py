"""One connection on which commands follow each other without waiting for the replies between them.

Redis carries them out in the order in which they were sent. So the scripts of a batch can be sent while
those of the one before are still at work, and what a later one reads is what the earlier one wrote.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

#: Seconds that a reply may take.
_REPLY_TIMEOUT = 15.0
#: What a server answers that does not serve this ladder (any more): another one is to be looked for.
_ELSEWHERE = (MovedError, AskError, ClusterDownError, ReadOnlyError)


class CommandExecutor(Protocol):
    """Something that carries out commands in the order in which they are called."""

    async def call(self, *args: Any) -> Any:
        """The command's reply; raises redis.exceptions.RedisError."""

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""


class PipelinedConnection:
    """A connection of its own; `call` sends at once, before its first wait for anything."""

    def __init__(self, open_connection: Callable[[], Awaitable[AbstractConnection]]) -> None:
        """`open_connection` gives a connected connection without a reply timeout of its own."""
        self._open = open_connection
        self._connection: AbstractConnection | None = None
        self._opening = asyncio.Lock()
        self._expected: deque[asyncio.Future[Any]] = deque()
        self._reader: asyncio.Task[None] | None = None

    async def call(self, *args: Any) -> Any:
        """The command's reply; raises redis.exceptions.RedisError or OSError.

        When the connection breaks, every command without a reply fails: it may or may not have been
        carried out.
        """
        connection = self._connection
        if connection is None:
            async with self._opening:
                connection = self._connection = self._connection or await self._open()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._expected.append(reply)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(connection))
        try:
            await connection.send_packed_command(connection.pack_command(*args), check_health=False)
        except (ConnectionError, TimeoutError, OSError) as error:
            self._break(error)
        return await reply

    async def _read(self, connection: AbstractConnection) -> None:
        try:
            while self._expected:
                try:
                    async with asyncio.timeout(_REPLY_TIMEOUT):
                        response, error = await connection.read_response(), None
                except _ELSEWHERE:
                    raise
                except ResponseError as refused:  # the command failed, the connection is fine
                    response, error = None, refused
                reply = self._expected.popleft()
                if reply.done():  # nobody waits for it any more
                    continue
                if error is None:
                    reply.set_result(response)
                else:
                    reply.set_exception(error)
            self._reader = None
        except Exception as error:
            self._reader = None
            self._break(error)

    def _break(self, error: BaseException) -> None:
        connection, self._connection = self._connection, None
        lost, self._expected = self._expected, deque()
        for reply in lost:
            if not reply.done():
                reply.set_exception(ConnectionError(f"the connection was lost: {error}"))
                reply.exception()  # seen, also when its caller was cancelled
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        if connection is not None:
            self._closing = asyncio.ensure_future(connection.disconnect(nowait=True))

    async def close(self) -> None:
        """Close the connection; commands without a reply fail, a later call opens it again."""
        self._break(OSError("it was closed"))
        if closing := getattr(self, "_closing", None):
            await asyncio.wait({closing}, timeout=1.0)


class ClientExecutor:
    """The same over a client's ordinary commands, one at a time: for clients without a connection."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._turn = asyncio.Lock()

    async def call(self, *args: Any) -> Any:
        """The command's reply; raises redis.exceptions.RedisError."""
        async with self._turn:
            return await self._client.execute_command(*args)

    async def close(self) -> None:
        """Nothing: the client is its owner's."""
