"""Checks of the server's version, role and set-up before a worker relies on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster

#: The oldest major version of Redis in which scripts may call XREADGROUP.
_OLDEST_MAJOR = 7


class UnsupportedServer(Exception):
    """Raised for a server that no worker can use; the text is one sentence with the reason."""


async def server_warnings(redis: Redis) -> list[str]:
    """One line for each way in which the server's configuration can lose ratings.

    On a cluster all primaries are checked. Raises UnsupportedServer for a server that is too old or a
    replica, and RedisError or OSError when it does not answer.
    """
    if isinstance(redis, RedisCluster):
        found = [_warnings(await redis.info(target_nodes=node)) for node in await _primaries(redis)]
        return sorted({line for lines in found for line in lines})
    return _warnings(await redis.info())


async def _primaries(cluster: RedisCluster) -> list[ClusterNode]:
    await cluster.initialize()
    return list(cluster.get_primaries())


def _warnings(info: Mapping[str, Any]) -> list[str]:
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
