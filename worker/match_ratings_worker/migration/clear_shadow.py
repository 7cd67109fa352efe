"""Deletes a shadow's keys, after which live workers may rate the ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from redis.asyncio import Redis

from match_ratings import stream_names as names
from match_ratings_worker.storage import HANDOVER_CONSUMER, ClientExecutor, Keys, Script
from match_ratings_worker.time_units import DAY_MS

#: Keys scanned, and deleted, in one step.
_PAGE: Final = 1000


class ShadowRunning(Exception):
    """Raised when workers of the shadow are running; the text names them."""


@dataclass(frozen=True, slots=True)
class ShadowContents:
    """Size of a shadow."""

    players: int
    events: int
    dead_letters: int
    #: Whether its consumer group exists: then the shadow gets the ladder's matches.
    entered: bool


class Shadow:
    """A ladder's shadow. Methods raise redis.exceptions.RedisError."""

    def __init__(self, redis: Redis, ladder: str) -> None:
        self._redis, self._keys = redis, Keys(ladder, shadow=True)
        self._scope = names.scope(ladder, shadow=True)
        self._script = Script("clear_shadow")

    async def contents(self) -> ShadowContents:
        """The numbers of players, events and dead letters."""
        keys = self._keys
        groups = []
        if await self._redis.exists(keys.inbox):
            groups = await self._redis.xinfo_groups(keys.inbox)
        entered = any(group["name"] == keys.group.encode() for group in groups)
        players = await self._redis.zcard(keys.leaderboard)
        events = await self._redis.xlen(keys.outbox)
        return ShadowContents(players, events, await self._redis.xlen(keys.dead_letters), entered)

    async def clear(self, idle: int) -> int:
        """Deletes all its keys and returns how many there were.

        No worker can join until it is done; after an interruption the next call finishes it. Raises
        ShadowRunning when a worker was not silent for `idle` ms.
        """
        await self._step("begin", idle)
        count = 0
        page: list[bytes] = []
        async for key in self._redis.scan_iter(match=f"{self._scope}:*", count=_PAGE):
            if key != self._keys.settings.encode():
                page.append(key)
            if len(page) == _PAGE:
                count += await self._delete(page)
        count += await self._delete(page)
        await self._step("end", DAY_MS)
        return count

    async def _step(self, step: Literal["begin", "end"], ms: int) -> None:
        keys = self._keys
        running = await self._script(
            ClientExecutor(self._redis),
            (keys.inbox, keys.settings, keys.heartbeats),
            (keys.group, step, ms, HANDOVER_CONSUMER),
        )
        if running:
            raise ShadowRunning(", ".join(name.decode("utf-8", "backslashreplace") for name in running))

    async def _delete(self, page: list[bytes]) -> int:
        count = int(await self._redis.unlink(*page)) if page else 0
        page.clear()
        return count
