"""Connections to Redis, and what is dangerous about the server they reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import hiredis
from arq.connections import ArqRedis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from contracts.names import QUEUE
from worker.channel import Channel

__all__ = ["PatientPool", "UnfitServer", "arq_pool", "connect", "dangers", "open_channel"]

T = TypeVar("T")

#: Seconds that a connection may take to open, and a reply to come.
_CONNECT_TIMEOUT, _REPLY_TIMEOUT = 5.0, 15.0
#: The longest pause between two tries, in seconds.
_LONGEST_PAUSE = 2.0
#: The oldest server on which scripts may call XREADGROUP.
_OLDEST_MAJOR = 7


class UnfitServer(Exception):
    """The server cannot be used; the text is one sentence that says why."""


class _HiredisPacking:
    """Packs commands with hiredis: the scripts take many arguments."""

    def pack_command(self, *args: Any) -> list[bytes]:
        name = args[0]
        if " " in name:  # redis-py gives "XGROUP CREATE" as one
            args = (*name.split(), *args[1:])
        return [hiredis.pack_command(args)]


def _pool(url: str, **options: Any) -> ConnectionPool:
    """A pool for redis://, rediss:// and unix:// addresses."""
    parsed: dict[str, Any] = dict(parse_url(url))
    base: type[Any] = parsed.pop("connection_class", Connection)
    packing = type(f"Fast{base.__name__}", (_HiredisPacking, base), {})
    if "path" not in parsed:
        options = {"socket_connect_timeout": _CONNECT_TIMEOUT, "socket_keepalive": True, **options}
    return ConnectionPool(connection_class=packing, **{"socket_timeout": _REPLY_TIMEOUT, **options, **parsed})


def connect(url: str, **options: Any) -> Redis:
    """A client that returns bytes and never retries by itself: a retried script may apply twice.

    Nothing is sent until the first command. Raises ValueError for an address that cannot be read.
    """
    return Redis.from_pool(_pool(url, **options))


def open_channel(client: Redis) -> Channel:
    """A channel over a connection of its own to where `client` connects to."""

    async def connection() -> AbstractConnection:
        made: AbstractConnection = client.connection_pool.make_connection()
        made.socket_timeout = None  # the channel keeps its own time
        await made.connect()
        return made

    return Channel(connection)


class _Patience(Retry):
    """Retries for as long as the worker runs, so that arq sits out a Redis that is away.

    arq's worker ends for good when a command fails. Its main task is the first to use the pool; once
    that task is cancelled or done, nothing is retried, so that a stop is never held up.
    """

    def __init__(self) -> None:
        super().__init__(
            ExponentialBackoff(cap=_LONGEST_PAUSE, base=0.05), -1, (ConnectionError, TimeoutError)
        )
        self._main: asyncio.Task[Any] | None = None

    def __deepcopy__(self, memo: Any) -> _Patience:
        return self  # one for all connections of the pool

    @property
    def stopping(self) -> bool:
        return self._main is not None and (self._main.done() or self._main.cancelling() > 0)

    async def call_with_retry(self, do: Callable[[], Awaitable[T]], fail: Callable[[RedisError], Any]) -> T:
        if self._main is None:
            self._main = asyncio.current_task()
        failures = 0
        while True:
            try:
                return await do()
            except (ConnectionError, TimeoutError, OSError) as error:
                failures += 1
                await fail(error)  # type: ignore[arg-type]
                if self.stopping:
                    raise
                await asyncio.sleep(self._backoff.compute(min(failures, 10)))


class PatientPool(ArqRedis):
    """arq's pool over a connection that waits for a lost Redis, and that closes without one."""

    def __init__(self, pool: ConnectionPool, patience: _Patience, **options: Any) -> None:
        super().__init__(pool, **options)
        self._patience = patience

    async def delete(self, *names: Any) -> Any:
        """Deletes keys; arq's last act, which must not fail only because Redis is away."""
        try:
            return await super().delete(*names)
        except (ConnectionError, TimeoutError, OSError):
            if not self._patience.stopping:
                raise
            return 0


def arq_pool(url: str, serializer: Any, deserializer: Any) -> PatientPool:
    """The pool that the arq worker uses for its queue."""
    patience = _Patience()
    pool = _pool(url, retry=patience, retry_on_error=[ConnectionError, TimeoutError, OSError])
    return PatientPool(
        pool, patience, job_serializer=serializer, job_deserializer=deserializer, default_queue_name=QUEUE
    )


async def dangers(redis: Redis) -> list[str]:
    """One line for each way in which this server, as it is set up, can lose ratings.

    Raises UnfitServer when it is too old, and RedisError when it does not answer.
    """
    info = await redis.info()
    version = str(info.get("redis_version", "0"))
    if int(version.split(".")[0]) < _OLDEST_MAJOR and "valkey_version" not in info:
        msg = f"Redis {version} is too old; use Redis 7 or newer, or Valkey"
        raise UnfitServer(msg)
    found = []
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        found.append(f"maxmemory-policy is {policy}: Redis may evict ratings; set it to noeviction")
    if not info.get("aof_enabled"):
        found.append(
            "appendonly is off: a crash of Redis loses what came after the last snapshot; set it to yes"
        )
    if info.get("role") == "slave":
        msg = "this is a replica, which cannot be written to; give the address of the primary"
        raise UnfitServer(msg)
    return found
