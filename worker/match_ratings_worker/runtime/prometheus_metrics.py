"""What an autoscaler and a dashboard need: backlog, lag, busy share, and what was settled.

Every few seconds each worker measures its ladders. The figures are served to Prometheus where
RATINGS_METRICS_PORT is set; each worker's busy share is also left in Redis, for `match-ratings status`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from redis.asyncio import Redis

from match_ratings_worker.pipeline.stream_consumer import StreamConsumer
from match_ratings_worker.storage.connection import CONNECTION_ERRORS
from match_ratings_worker.units import now_ms

__all__ = ["INTERVAL", "Metrics"]

log = structlog.get_logger(__name__)

#: Seconds between two measurements.
INTERVAL = 5.0


class Metrics:
    """Measures the intakes of one worker process and the streams they read."""

    def __init__(self, redis: Redis, intakes: Sequence[StreamConsumer], port: int | None, host: str) -> None:
        """`port` 0-65535 serves Prometheus on it; None serves nothing."""
        self._redis = redis
        self._intakes = intakes
        self._port, self._host = port, host
        self._registry = registry = CollectorRegistry()
        self._server: Any = None
        self._before: dict[str, dict[str, int]] = {}

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"ratings_{name}", text, ["ladder"], registry=registry)

        self._backlog = gauge("backlog", "Messages in the inbox that are not settled, claimed ones included")
        self._lag = gauge("lag", "Messages in the inbox that no worker has claimed yet")
        self._oldest = gauge("oldest_seconds", "How long the oldest message has been in the inbox")
        self._dead = gauge("dead_letters", "Dead letters that wait to be replayed or discarded")
        self._busy = gauge(
            "busy_share", "Share of the last seconds in which this worker was not waiting, 0-1"
        )
        self._claimed = gauge("claimed", "Messages that this worker has claimed and not settled")
        self._settled = Counter(
            "ratings_settled", "Messages settled by this worker", ["ladder", "outcome"], registry=registry
        )

    def start(self) -> None:
        """Serves the figures, from a thread of its own; logs a line when the port is taken."""
        if self._port is None:
            return
        try:
            self._server, _ = start_http_server(self._port, self._host, registry=self._registry)
        except OSError as error:
            log.error("no metrics", host=self._host, port=self._port, error=str(error))

    def stop(self) -> None:
        """Stops serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    async def run(self) -> None:
        """Measures until cancelled; a Redis that is away only leaves the figures as they were."""
        while True:
            for intake in self._intakes:
                try:
                    await self._measure(intake)
                except CONNECTION_ERRORS:
                    continue
            await asyncio.sleep(INTERVAL)

    async def _measure(self, intake: StreamConsumer) -> None:
        engine = intake.engine
        ladder, keys = engine.ladder, engine.store.keys
        share = intake.busy_share()
        self._busy.labels(ladder).set(share)
        self._claimed.labels(ladder).set(len(engine.waiting))
        before = self._before.get(ladder, {})
        for outcome, count in engine.settled.items():
            self._settled.labels(ladder, outcome).inc(count - before.get(outcome, 0))
        self._before[ladder] = dict(engine.settled)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(keys.inbox)
            pipe.xrange(keys.inbox, count=1)
            pipe.xlen(keys.dead_letters)
            pipe.xpending(keys.inbox, keys.group)
            pipe.hset(keys.busy_shares, engine.consumer, f"{share:.3f} {now_ms()}")
            pipe.expire(keys.busy_shares, 86_400)
            backlog, oldest, dead, pending, *_ = await pipe.execute()
        self._backlog.labels(ladder).set(backlog)
        self._lag.labels(ladder).set(max(backlog - pending["pending"], 0))
        self._dead.labels(ladder).set(dead)
        entered = int(oldest[0][0].partition(b"-")[0]) if oldest else 0
        self._oldest.labels(ladder).set(max(time.time() - entered / 1000, 0) if entered else 0)
