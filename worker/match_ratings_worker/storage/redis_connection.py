"""Clients of Redis: one server, a cluster, or the primary behind Sentinels."""

from __future__ import annotations

from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.exceptions import ConnectionError, RedisClusterException, RedisError

from .hiredis_packing import with_hiredis_packing
from .pipelined_connection import PipelinedConnection
from .redis_url import Address

#: Seconds that a connection may take to open, and a reply to come.
_CONNECT_TIMEOUT, _REPLY_TIMEOUT = 5.0, 15.0
#: Errors of a Redis that does not answer, or answers with an error.
CONNECTION_ERRORS: Final = (RedisError, RedisClusterException, OSError)


def _options(address: Address, **options: Any) -> dict[str, Any]:
    timeouts: dict[str, Any] = {"socket_timeout": _REPLY_TIMEOUT}
    if "path" not in address.options:
        timeouts |= {"socket_connect_timeout": _CONNECT_TIMEOUT, "socket_keepalive": True}
    return {**timeouts, **options, **address.options}


def connection_pool(url: str, **options: Any) -> ConnectionPool:
    """A pool of connections to one server, or to the primary that Sentinels name.

    Raises ValueError for an address that cannot be read.
    """
    address = Address.parse(url)
    settings = _options(address, **options)
    if address.kind == "sentinel":
        quick = {"socket_timeout": _CONNECT_TIMEOUT, "socket_connect_timeout": _CONNECT_TIMEOUT}
        sentinels = Sentinel(list(address.hosts), sentinel_kwargs=quick)
        connection = with_hiredis_packing(SentinelManagedConnection)
        return SentinelConnectionPool(address.service, sentinels, connection_class=connection, **settings)
    connection = with_hiredis_packing(settings.pop("connection_class", Connection))
    return ConnectionPool(connection_class=connection, **settings)


def connect(url: str, **options: Any) -> Redis:
    """A client that returns bytes and never retries by itself: a retried script may apply twice.

    For a cluster this is a RedisCluster, which takes the same commands. It connects with the first command.
    Raises ValueError for an address that cannot be read.
    """
    address = Address.parse(url)
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        cluster: Any = RedisCluster(
            startup_nodes=nodes, require_full_coverage=False, **_options(address, **options)
        )
        return cast(Redis, cluster)
    return Redis.from_pool(connection_pool(url, **options))


def open_pipelined(url: str, key: str) -> PipelinedConnection:
    """A pipelined connection of its own to the server that holds `key`.

    Raises ValueError for an address that cannot be read.
    """

    async def to_server() -> AbstractConnection:
        return await _opened(pool.make_connection())

    async def to_node() -> AbstractConnection:
        # Looked up for each connection: the slot may have moved, or its primary failed over.
        cluster = cast(RedisCluster, connect(url))
        try:
            await cluster.initialize()
            node = cluster.get_node_from_key(key)
            if node is None:
                msg = "no node of the cluster serves this ladder's slot"
                raise ConnectionError(msg)
            return await _opened(with_hiredis_packing(node.connection_class)(**node.connection_kwargs))
        finally:
            await cluster.aclose()

    if Address.parse(url).kind == "cluster":
        return PipelinedConnection(to_node)
    pool = connection_pool(url)
    return PipelinedConnection(to_server)


async def _opened(connection: AbstractConnection) -> AbstractConnection:
    connection.socket_timeout = None  # PipelinedConnection has a timeout of its own
    await connection.connect()
    return connection
