"""The figures of one worker process: backlog, lag, busy share, and messages settled by outcome.

Prometheus scrapes them where RATINGS_METRICS_PORT is set. The busy share is also left in Redis, for
`match-ratings status`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

import structlog
from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from redis.asyncio import Redis

from match_ratings_worker.pipeline import Action, StreamConsumer
from match_ratings_worker.storage import CONNECTION_ERRORS, stream_id_ms
from match_ratings_worker.time_units import DAY_MS, now_ms

log = structlog.get_logger(__name__)

#: Seconds between two measurements of a ladder.
_INTERVAL: Final = 5.0

#: Gauge -> meaning; each has the label `ladder`.
GAUGES: Final = {
    "ratings_backlog": "Messages in the inbox that are not settled, claimed ones included",
    "ratings_lag": "Messages in the inbox that no worker has claimed yet",
    "ratings_oldest_seconds": "How long the oldest message has been in the inbox",
    "ratings_dead_letters": "Dead letters that wait to be replayed or discarded",
    "ratings_busy_share": "Share of the last seconds in which this worker was not waiting, 0-1",
    "ratings_claimed": "Messages that this worker has claimed and not settled",
}
#: The one counter and its meaning; its labels are `ladder` and `outcome`.
SETTLED: Final = ("ratings_settled_total", "Messages settled by this worker")
_OUTCOMES: Final[tuple[str, ...]] = get_args(Action)


class _Measured(NamedTuple):
    """A ladder's figures at the last measurement."""

    settled: Mapping[str, int]
    claimed: int
    backlog: int
    lag: int
    #: When the oldest message entered the inbox, in ms; 0 when there is none.
    oldest: int
    dead_letters: int
    busy_share: float


class Metrics(Collector):
    """Measures the ladders of one worker process, and serves the figures to Prometheus."""

    def __init__(
        self, redis: Redis, consumers: Sequence[StreamConsumer], port: int | None, host: str
    ) -> None:
        """Serve on `port`, 0-65535; nothing is served when it is None."""
        self._redis = redis
        self._consumers = consumers
        self._port, self._host = port, host
        self._server: Any = None
        self._measured: dict[str, _Measured] = {}

    def start(self) -> None:
        """Serve the figures from a thread of their own; logs an error when the port is taken."""
        if self._port is None:
            return
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, _ = start_http_server(self._port, self._host, registry=registry)
        except OSError as error:
            log.error("metrics port unavailable", host=self._host, port=self._port, error=str(error))

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    async def run(self) -> None:
        """Measure every few seconds until cancelled; while Redis is away the figures stay as they were."""
        while True:
            for consumer in self._consumers:
                try:
                    await self._measure(consumer)
                except CONNECTION_ERRORS:
                    continue
            await asyncio.sleep(_INTERVAL)

    def collect(self) -> Iterator[Metric]:
        """The figures of all ladders, for one scrape."""
        gauges = {name: GaugeMetricFamily(name, text, labels=["ladder"]) for name, text in GAUGES.items()}
        settled = CounterMetricFamily(*SETTLED, labels=["ladder", "outcome"])
        now = now_ms()
        for ladder in [consumer.engine.ladder for consumer in self._consumers]:
            measured = self._measured.get(ladder)
            for outcome in _OUTCOMES:
                settled.add_metric([ladder, outcome], measured.settled.get(outcome, 0) if measured else 0)
            if measured is None:
                continue
            oldest = max(now - measured.oldest, 0) / 1000 if measured.oldest else 0
            values = {
                "ratings_backlog": measured.backlog,
                "ratings_lag": measured.lag,
                "ratings_oldest_seconds": oldest,
                "ratings_dead_letters": measured.dead_letters,
                "ratings_busy_share": measured.busy_share,
                "ratings_claimed": measured.claimed,
            }
            for name, value in values.items():
                gauges[name].add_metric([ladder], value)
        yield from gauges.values()
        yield settled

    async def _measure(self, consumer: StreamConsumer) -> None:
        engine = consumer.engine
        keys, share = engine.store.keys, consumer.busy_share()
        settled = dict(engine.settled)  # before the backlog is read, which then has all of them behind it
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(keys.inbox)
            pipe.xrange(keys.inbox, count=1)
            pipe.xlen(keys.dead_letters)
            pipe.xpending(keys.inbox, keys.group)
            pipe.hset(keys.busy_shares, engine.consumer, f"{share:.3f} {now_ms()}")
            pipe.pexpire(keys.busy_shares, DAY_MS)
            backlog, oldest, dead, pending, *_ = await pipe.execute()
        self._measured[engine.ladder] = _Measured(
            settled=settled,
            claimed=len(engine.waiting),
            backlog=backlog,
            lag=max(backlog - pending["pending"], 0),
            oldest=stream_id_ms(oldest[0][0].decode()) if oldest else 0,
            dead_letters=dead,
            busy_share=share,
        )
