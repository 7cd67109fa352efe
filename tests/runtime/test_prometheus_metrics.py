"""The figures that a worker serves to Prometheus."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import AsyncIterator
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis
from structlog.testing import capture_logs

from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.message_batch import Action, Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.runtime.prometheus_metrics import GAUGES, Metrics
from match_ratings_worker.time_units import DAY_MS

Figures = dict[tuple[str, str], float]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
async def consumer(redis: Redis, ladder: str) -> StreamConsumer:
    """The consumer of a ladder, not running; its group is there."""
    store = LadderStore(redis, ladder, Backgammon(), horizon=14 * DAY_MS)
    await store.join_group()
    return StreamConsumer(BatchProcessor(store, ladder, Backgammon(), "one", Limits()))


@pytest.fixture
async def metrics(redis: Redis, consumer: StreamConsumer) -> AsyncIterator[Metrics]:
    """The figures of one ladder, served on a free port."""
    found = Metrics(redis, [consumer], free_port(), "127.0.0.1")
    found.start()
    yield found
    await asyncio.to_thread(found.stop)


async def scraped(metrics: Metrics) -> tuple[str, Figures]:
    """The text of a scrape, and its figures by name and outcome."""

    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics._port}/metrics") as reply:
            return str(reply.read().decode())

    text = await asyncio.to_thread(get)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return text, {(sample.name, sample.labels.get("outcome", "")): sample.value for sample in samples}


async def test_every_outcome_has_a_series_from_the_start(metrics: Metrics) -> None:
    text, figures = await scraped(metrics)
    assert {outcome for name, outcome in figures if name == "ratings_settled_total"} == set(get_args(Action))
    assert set(figures.values()) == {0.0}
    assert "_created" not in text


async def test_each_scrape_has_the_totals(metrics: Metrics, consumer: StreamConsumer) -> None:
    # Given messages that were settled and measured before and after a scrape
    consumer.engine.settled["rated"] += 3
    await metrics._measure(consumer)
    _, first = await scraped(metrics)
    consumer.engine.settled["rated"] += 2
    consumer.engine.settled["dead"] += 1
    await metrics._measure(consumer)
    _, second = await scraped(metrics)
    # Then each has all of them up to then
    assert first["ratings_settled_total", "rated"] == 3
    assert second["ratings_settled_total", "rated"] == 5
    assert second["ratings_settled_total", "dead"] == 1
    assert second["ratings_settled_total", "duplicate"] == 0


async def test_the_streams_are_measured(
    metrics: Metrics, consumer: StreamConsumer, redis: Redis, ladder: str
) -> None:
    # Given three messages, one of them claimed, and a dead letter
    store = consumer.engine.store
    await redis.xadd(store.keys.inbox, {"message": "{"}, id="1000-0")
    for _ in range(2):
        await redis.xadd(store.keys.inbox, {"message": "{"})
    await redis.xadd(store.keys.dead_letters, {"message": "{"})
    await store.claim("other", "new", 1)
    # When the ladder is measured
    await metrics._measure(consumer)
    # Then every gauge has its figure
    text, figures = await scraped(metrics)
    found = {name: figures[name, ""] for name in GAUGES}
    assert found.pop("ratings_oldest_seconds") > 1_000_000_000
    assert found == {
        "ratings_backlog": 3,
        "ratings_lag": 2,
        "ratings_dead_letters": 1,
        "ratings_busy_share": 0,
        "ratings_claimed": 0,
    }
    assert f'ratings_backlog{{ladder="{ladder}"}} 3.0' in text
    # And the busy share is left for `status`
    assert list(await redis.hkeys(store.keys.busy_shares)) == [b"one"]  # type: ignore[misc]


def test_a_port_that_is_taken_is_an_error_in_the_log_and_no_more() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        metrics = Metrics(Redis(), [], taken.getsockname()[1], "127.0.0.1")
        with capture_logs() as logs:
            metrics.start()
            metrics.stop()
    assert [line["event"] for line in logs] == ["metrics port unavailable"]
