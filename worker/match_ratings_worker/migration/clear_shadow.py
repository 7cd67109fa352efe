"""The end of a shadow: its keys are dropped, and the ladder is free for workers that are authoritative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from redis.asyncio import Redis

from match_ratings import stream_names as names
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER
from match_ratings_worker.units import DAY_MS

__all__ = ["Contents", "Shadow", "StillRunning"]

#: Keys that are looked at, or dropped, in one step.
_PAGE: Final = 1000


class StillRunning(Exception):
    """Workers of the shadow run; the text names them."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a shadow holds."""

    players: int
    events: int
    dead_letters: int
    #: Whether its workers' consumer group is there: then it has the ladder's matches.
    entered: bool


class Shadow:
    """A ladder's shadow, from outside."""

    def __init__(self, redis: Redis, ladder: str) -> None:
        self._redis, self._keys = redis, Keys(ladder, shadow=True)
        self._scope = names.scope(ladder, shadow=True)
        self._step = Script("clear_shadow")

    async def contents(self) -> Contents:
        """What there is to be dropped."""
        keys = self._keys
        groups = []
        if await self._redis.exists(keys.inbox):
            groups = await self._redis.xinfo_groups(keys.inbox)
        entered = any(group["name"] == keys.group.encode() for group in groups)
        players = await self._redis.zcard(keys.leaderboard)
        events = await self._redis.xlen(keys.outbox)
        return Contents(players, events, await self._redis.xlen(keys.dead_letters), entered)

    async def clear(self, idle: int) -> int:
        """Drops all its keys and returns how many there were.

        A worker that was silent for `idle` ms counts as gone; raises StillRunning when one is not. While
        it goes on nobody is let in. Broken off, it is done to the end by the next call.
        """
        await self._do("begin", idle)
        count = 0
        page: list[bytes] = []
        async for key in self._redis.scan_iter(match=f"{self._scope}:*", count=_PAGE):
            if key != self._keys.settings.encode():
                page.append(key)
            if len(page) == _PAGE:
                count += await self._drop(page)
        count += await self._drop(page)
        await self._do("end", DAY_MS)
        return count

    async def _do(self, step: Literal["begin", "end"], ms: int) -> None:
        keys = self._keys
        running = await self._step(
            ClientExecutor(self._redis),
            (keys.inbox, keys.settings, keys.heartbeats),
            (keys.group, step, ms, HANDOVER_CONSUMER),
        )
        if running:
            raise StillRunning(", ".join(name.decode("utf-8", "backslashreplace") for name in running))

    async def _drop(self, page: list[bytes]) -> int:
        count = int(await self._redis.unlink(*page)) if page else 0
        page.clear()
        return count
