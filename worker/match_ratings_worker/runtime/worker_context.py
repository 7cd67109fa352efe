"""The state of one worker process: what its jobs share, and the stream consumers that run beside them."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from typing import Any

import structlog
from arq import Retry
from redis.asyncio import Redis

from match_ratings import Reason
from match_ratings_worker.backoff import Backoff
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.ladders_file import Ladder
from match_ratings_worker.ledger import open_archiver
from match_ratings_worker.pipeline import BatchProcessor, LadderStore, Limits, StreamConsumer
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import (
    CONNECTION_ERRORS,
    Keys,
    add_dead_letter,
    connect,
    open_pipelined,
    server_warnings,
)

from .prometheus_metrics import Metrics

log = structlog.get_logger(__name__)

#: Seconds that a stopping worker waits for the batches in hand.
_DRAIN_SECONDS = 5.0
#: Seconds that a job waits for a Redis that is away before it is queued again.
_WAIT_SECONDS = 10.0


class WorkerContext:
    """Settings, ladders, Redis and running consumers of one worker process; ctx["worker"] of each job."""

    def __init__(self, settings: Settings, ladders: dict[str, Ladder]) -> None:
        self.settings = settings
        self.ladders = ladders
        self.redis: Redis = connect(settings.redis_url)
        self.consumers: list[StreamConsumer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.archiver = open_archiver(self.redis, settings)
        self._archiving: asyncio.Task[None] | None = None
        self._metrics: Metrics | None = None
        self._measuring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check the server and start a consumer for each ladder.

        Raises UnsupportedServer, and RedisError or OSError when Redis does not answer.
        """
        for warning in await server_warnings(self.redis):
            log.warning(warning)
        host = socket.gethostname()
        for ladder in self.ladders.values():
            name = f"{host}:{os.getpid()}:{secrets.token_hex(4)}"
            store = LadderStore(
                self.redis,
                ladder.name,
                ladder.system,
                horizon=self.settings.horizon_ms,
                executor=open_pipelined(self.settings.redis_url, Keys(ladder.name).inbox),
                shadow=self.settings.shadow,
            )
            engine = BatchProcessor(store, ladder.name, ladder.system, name, _limits(self.settings))
            consumer = StreamConsumer(engine)
            self.consumers.append(consumer)
            self._tasks.append(asyncio.create_task(consumer.run(), name=f"ladder {ladder.name}"))
            about = {"shadow": True} if self.settings.shadow else {}
            log.info("rating", ladder=ladder.name, system=ladder.system.name, consumer=name, **about)
        if self.archiver.archive is not None:
            ledgers = [(ladder, self.keys(ladder)) for ladder in self.ladders]
            self._archiving = asyncio.create_task(self.archiver.run_forever(ledgers), name="archiver")
        self._metrics = Metrics(
            self.redis, self.consumers, self.settings.metrics_port, self.settings.metrics_host
        )
        self._metrics.start()
        self._measuring = asyncio.create_task(self._metrics.run(), name="metrics")

    async def stop(self) -> None:
        """Finish the batches in hand, within a few seconds, and close the connections."""
        if self._metrics is not None and self._measuring is not None:
            self._measuring.cancel()
            self._metrics.stop()
        self.archiver.stop()
        if self._archiving is not None:
            self._tasks.append(self._archiving)
        for consumer in self.consumers:
            consumer.stop()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_DRAIN_SECONDS)
            for task in late:
                log.warning(
                    "stopped in the middle of a batch, other workers take it over", task=task.get_name()
                )
                task.cancel()
        for consumer in self.consumers:
            await consumer.engine.store.executor.close()
        self.archiver.close()
        await self.redis.aclose()
        settled = sum(consumer.engine.settled.total() for consumer in self.consumers)
        log.info("stopped", settled=settled)

    def keys(self, ladder: str) -> Keys:
        """A ladder's keys; its shadow's when this process rates beside another rater."""
        return Keys(ladder, shadow=self.settings.shadow)

    async def add_dead_letter(self, raw: bytes, reason: Reason, detail: str) -> None:
        """Make a dead letter, of the first ladder configured, of a message that came by a job."""
        ladder = next(iter(self.ladders))
        await add_dead_letter(self.redis, self.keys(ladder), raw, reason, detail)
        log.warning("dead letter", ladder=ladder, reason=reason.value, detail=detail)


def _limits(settings: Settings) -> Limits:
    """The limits of the pipeline, from the settings."""
    return Limits(
        batch=settings.batch,
        chunk=settings.chunk,
        waiting=2 * settings.batch,
        attempts=settings.max_attempts,
        horizon=settings.horizon_ms,
        idle=int(settings.idle_seconds * 1000),
    )


async def retry_while_unavailable(act: Callable[[], Any], seconds: float = _WAIT_SECONDS) -> Any:
    """Call `act` until Redis answers, for about `seconds`; then raise arq's Retry to queue the job again.

    A message that came by a job is nowhere else, so it may not be dropped. It may not wait here for long
    either: the jobs of a worker that is killed run again only after the longest time a job may take.
    """
    backoff, waited = Backoff(0.05, 2.0), 0.0
    while True:
        try:
            return await act()
        except CONNECTION_ERRORS as error:
            log.warning("Redis unavailable, retrying", error=quote(str(error), 200))
            if waited > seconds:
                raise Retry(defer=1) from None
            pause = backoff.next_pause()
            await asyncio.sleep(pause)
            waited += pause
