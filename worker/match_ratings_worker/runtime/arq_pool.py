"""arq's Redis pool, made to outlast a Redis that is away: arq's worker ends when a command fails.

This reaches into redis-py: `Retry.call_with_retry`, its copies for each connection, and
`Pipeline.immediate_execute_command`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from arq.connections import ArqRedis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError, WatchError

from match_ratings.stream_names import QUEUE
from match_ratings_worker.backoff import Backoff
from match_ratings_worker.storage import CONNECTION_ERRORS, connection_pool

T = TypeVar("T")

#: Seconds that a stopping arq waits for its last command.
_LAST_COMMAND_SECONDS = 2.0
#: First and longest pause between two tries, in seconds.
_PAUSES = (0.05, 2.0)


class RetryForever(Retry):
    """Retries for as long as the worker runs.

    arq's main task is the first to use the pool. Once that task is cancelled or done nothing is retried,
    so that a stop is never held up.
    """

    def __init__(self) -> None:
        super().__init__(NoBackoff(), -1, (ConnectionError, TimeoutError))
        self._main: asyncio.Task[Any] | None = None

    def __deepcopy__(self, memo: Any) -> RetryForever:
        return self  # shared by all connections of the pool

    @property
    def stopping(self) -> bool:
        """Whether arq's main task has ended or is about to."""
        return self._main is not None and (self._main.done() or self._main.cancelling() > 0)

    async def call_with_retry(self, do: Callable[[], Awaitable[T]], fail: Callable[[RedisError], Any]) -> T:
        """Call `do` until it succeeds, and `fail` after each failure; raises the error once stopping."""
        if self._main is None:
            self._main = asyncio.current_task()
        backoff = Backoff(*_PAUSES)
        while True:
            try:
                return await do()
            except (ConnectionError, TimeoutError, OSError) as error:
                await fail(error)  # type: ignore[arg-type]
                if self.stopping:
                    raise
                await asyncio.sleep(backoff.next_pause())


class ResilientPipeline(Pipeline):
    """Watches its keys again on another connection when the first is lost before anything was sent.

    redis-py raises WatchError there, which ends arq's worker. What arq had read is read again.
    """

    retry: RetryForever
    _watched: tuple[Any, ...] = ()

    async def watch(self, *names: Any) -> None:  # type: ignore[override]  # it is async there too
        """Watch keys, and remember them for a new connection."""
        self._watched = names
        await super().watch(*names)

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command before MULTI; raises ConnectionError when the connection is lost for good."""
        while True:
            try:
                return await super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]  # untyped there
            except WatchError as error:
                if self.retry.stopping or args[0] == "WATCH":
                    raise ConnectionError(str(error)) from None
                await self.watch(*self._watched)


class ResilientArqPool(ArqRedis):
    """arq's pool over connections that wait for a lost Redis; it can be closed without one."""

    def __init__(self, pool: ConnectionPool, retry: RetryForever, **options: Any) -> None:
        super().__init__(pool, **options)
        self._retry = retry

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """A pipeline that survives a lost connection where nothing can be applied twice."""
        pipe = ResilientPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.retry = self._retry
        return pipe

    async def delete(self, *names: Any) -> Any:
        """Delete keys. This is arq's last command, which must not fail because Redis is away."""
        try:
            async with asyncio.timeout(_LAST_COMMAND_SECONDS if self._retry.stopping else None):
                return await super().delete(*names)
        except CONNECTION_ERRORS:
            if not self._retry.stopping:
                raise
            return 0


def arq_pool(url: str, serializer: Any, deserializer: Any) -> ResilientArqPool:
    """The pool through which the arq worker reaches its queue."""
    retry = RetryForever()
    pool = connection_pool(url, retry=retry, retry_on_error=[ConnectionError, TimeoutError, OSError])
    return ResilientArqPool(
        pool, retry, job_serializer=serializer, job_deserializer=deserializer, default_queue_name=QUEUE
    )
