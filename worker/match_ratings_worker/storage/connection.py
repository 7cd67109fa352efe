"""Connections to Redis, and what is dangerous about the server they reach."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import hiredis
from arq.connections import ArqRedis
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, RedisClusterException, RedisError, TimeoutError, WatchError

from match_ratings.stream_names import QUEUE
from match_ratings_worker.storage.pipelined_connection import PipelinedConnection
from match_ratings_worker.storage.redis_url import Address

__all__ = [
    "CONNECTION_ERRORS",
    "ResilientArqPool",
    "UnsupportedServer",
    "arq_pool",
    "connect",
    "server_warnings",
    "open_pipelined",
]

T = TypeVar("T")

#: Seconds that a connection may take to open, and a reply to come.
_CONNECT_TIMEOUT, _REPLY_TIMEOUT = 5.0, 15.0
#: How long a stopping arq waits for its last command, in seconds.
_LAST_ACT = 2.0
#: What is raised when Redis does not answer, or not as it should.
CONNECTION_ERRORS = (RedisError, RedisClusterException, OSError)
#: The longest pause between two tries, in seconds.
_LONGEST_PAUSE = 2.0
#: The oldest server on which scripts may call XREADGROUP.
_OLDEST_MAJOR = 7


class UnsupportedServer(Exception):
    """The server cannot be used; the text is one sentence that says why."""


class _HiredisPacking:
    """Packs commands with hiredis, since the scripts take many arguments, and can be cancelled."""

    socket_timeout: float | None

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Sends a command within the socket's timeout.

        redis-py does it under asyncio.wait_for, which on Python 3.11 may swallow a cancellation: then
        a worker would not end when it is told to.
        """
        limit, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                # The class that this is mixed into has it.
                await super().send_packed_command(command, check_health)  # type: ignore[misc]
        except builtins.TimeoutError as error:
            msg = "Timeout writing to socket"
            raise TimeoutError(msg) from error
        finally:
            self.socket_timeout = limit

    def pack_command(self, *args: Any) -> list[bytes]:
        name = args[0]
        if " " in name:  # redis-py gives "XGROUP CREATE" as one
            args = (*name.split(), *args[1:])
        return [hiredis.pack_command(args)]


def _options(address: Address, **options: Any) -> dict[str, Any]:
    timeouts: dict[str, Any] = {"socket_timeout": _REPLY_TIMEOUT}
    if "path" not in address.options:
        timeouts |= {"socket_connect_timeout": _CONNECT_TIMEOUT, "socket_keepalive": True}
    return {**timeouts, **options, **address.options}


def _packing(base: type[Any]) -> type[Any]:
    return type(f"Fast{base.__name__}", (_HiredisPacking, base), {})


def _pool(url: str, **options: Any) -> ConnectionPool:
    """A pool for one server, or for the primary that Sentinels name."""
    address = Address.parse(url)
    settings = _options(address, **options)
    if address.kind == "sentinel":
        quick = {"socket_timeout": _CONNECT_TIMEOUT, "socket_connect_timeout": _CONNECT_TIMEOUT}
        sentinels = Sentinel(list(address.hosts), sentinel_kwargs=quick)
        connection = _packing(SentinelManagedConnection)
        return SentinelConnectionPool(address.service, sentinels, connection_class=connection, **settings)
    connection = _packing(settings.pop("connection_class", Connection))
    return ConnectionPool(connection_class=connection, **settings)


def connect(url: str, **options: Any) -> Redis:
    """A client that returns bytes and never retries by itself: a retried script may apply twice.

    For a cluster it is a RedisCluster, which takes the same commands. Nothing is sent until the first
    command. Raises ValueError for an address that cannot be read.
    """
    address = Address.parse(url)
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        cluster: Any = RedisCluster(
            startup_nodes=nodes, require_full_coverage=False, **_options(address, **options)
        )
        return cast(Redis, cluster)
    return Redis.from_pool(_pool(url, **options))


def open_pipelined(url: str, key: str) -> PipelinedConnection:
    """A channel over a connection of its own to the server that holds `key`."""

    async def to_server() -> AbstractConnection:
        return await _opened(pool.make_connection())

    async def to_node() -> AbstractConnection:
        # Looked up anew each time: the slot may have moved, or its primary may be another.
        cluster = cast(RedisCluster, connect(url))
        try:
            await cluster.initialize()
            node = cluster.get_node_from_key(key)
            if node is None:
                msg = "no node of the cluster serves this ladder's slot"
                raise ConnectionError(msg)
            return await _opened(_packing(node.connection_class)(**node.connection_kwargs))
        finally:
            await cluster.aclose()

    if Address.parse(url).kind == "cluster":
        return PipelinedConnection(to_node)
    pool = _pool(url)
    return PipelinedConnection(to_server)


async def _opened(connection: AbstractConnection) -> AbstractConnection:
    connection.socket_timeout = None  # the channel keeps its own time
    await connection.connect()
    return connection


class RetryForever(Retry):
    """Retries for as long as the worker runs, so that arq sits out a Redis that is away.

    arq's worker ends for good when a command fails. Its main task is the first to use the pool; once
    that task is cancelled or done, nothing is retried, so that a stop is never held up.
    """

    def __init__(self) -> None:
        super().__init__(
            ExponentialBackoff(cap=_LONGEST_PAUSE, base=0.05), -1, (ConnectionError, TimeoutError)
        )
        self._main: asyncio.Task[Any] | None = None

    def __deepcopy__(self, memo: Any) -> RetryForever:
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


class ResilientPipeline(Pipeline):
    """Watches its keys anew on another connection when the first is lost before anything was sent.

    redis-py raises WatchError there, which ends arq's worker. What arq reads is read again.
    """

    patience: RetryForever
    _watched: tuple[Any, ...] = ()

    async def watch(self, *names: Any) -> None:  # type: ignore[override]  # it is async there too
        self._watched = names
        await super().watch(*names)

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        while True:
            try:
                return await super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]  # untyped there
            except WatchError as error:
                if self.patience.stopping or args[0] == "WATCH":
                    raise ConnectionError(str(error)) from None
                await self.watch(*self._watched)


class ResilientArqPool(ArqRedis):
    """arq's pool over a connection that waits for a lost Redis, and that closes without one."""

    def __init__(self, pool: ConnectionPool, patience: RetryForever, **options: Any) -> None:
        super().__init__(pool, **options)
        self._patience = patience

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """A pipeline that outlives a lost connection as far as that is safe."""
        pipe = ResilientPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.patience = self._patience
        return pipe

    async def delete(self, *names: Any) -> Any:
        """Deletes keys; arq's last act, which must not fail only because Redis is away."""
        try:
            async with asyncio.timeout(_LAST_ACT if self._patience.stopping else None):
                return await super().delete(*names)
        except CONNECTION_ERRORS:
            if not self._patience.stopping:
                raise
            return 0


def arq_pool(url: str, serializer: Any, deserializer: Any) -> ResilientArqPool:
    """The pool that the arq worker uses for its queue."""
    patience = RetryForever()
    pool = _pool(url, retry=patience, retry_on_error=[ConnectionError, TimeoutError, OSError])
    return ResilientArqPool(
        pool, patience, job_serializer=serializer, job_deserializer=deserializer, default_queue_name=QUEUE
    )


async def server_warnings(redis: Redis) -> list[str]:
    """One line for each way in which this server, as it is set up, can lose ratings.

    Raises UnfitServer when it is too old, and RedisError when it does not answer.
    """
    if isinstance(redis, RedisCluster):
        found = [_dangers_of(await redis.info(target_nodes=node)) for node in await _primaries(redis)]
        return sorted({line for lines in found for line in lines})
    return _dangers_of(await redis.info())


async def _primaries(cluster: RedisCluster) -> list[ClusterNode]:
    await cluster.initialize()
    return list(cluster.get_primaries())


def _dangers_of(info: Mapping[str, Any]) -> list[str]:
    version = str(info.get("redis_version", "0"))
    if int(version.split(".")[0]) < _OLDEST_MAJOR and "valkey_version" not in info:
        msg = f"Redis {version} is too old; use Redis 7 or newer, or Valkey"
        raise UnsupportedServer(msg)
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
        raise UnsupportedServer(msg)
    return found
