"""Ladders over a real cluster, and a failover under Sentinels during load."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from embedded import Server
from match_ratings import MatchFinished, RatingUpdated, publish
from match_ratings.client import NotReplicated
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import now_ms
from tests.support.topologies import cluster, watched, workers
from tests.support.waiting import eventually, until

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    # redis-py's cluster client leaves connections to its old nodes open when it learns of new ones.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def match(number: int, ladder: str, players: int = 40) -> MatchFinished:
    first, second = number % players, (number * 7 + 1) % players
    names = (f"p{first}", f"p{second if second != first else (first + 1) % players}")
    return MatchFinished(
        match_id=f"m{number}", ladder=ladder, players=names, winner=names[0], finished_at=now_ms()
    )


async def until_empty(redis: Redis, *ladders: str) -> None:
    for ladder in ladders:
        await eventually(partial(_is_empty, redis, ladder))


async def _is_empty(redis: Redis, ladder: str) -> bool:
    return not await redis.xlen(Keys(ladder).inbox)


async def confirmed(redis: Redis, message: MatchFinished) -> bool:
    """Sends a match; what is not confirmed may be sent again."""
    try:
        return bool(await publish(redis, message, replicas=1))
    except NotReplicated:
        return False


async def events(redis: Redis, ladder: str) -> list[RatingUpdated]:
    return [
        RatingUpdated.model_validate_json(fields[b"message"])
        for _, fields in await redis.xrange(Keys(ladder).outbox)
    ]


async def test_ladders_live_on_different_nodes_of_a_cluster(tmp_path: Path) -> None:
    # Given a cluster of three nodes, arq's queue on a plain Redis, and six ladders
    ladders = [f"ladder-{letter}" for letter in "abcdef"]
    config = tmp_path / "ladders.toml"
    config.write_text("".join(f"[ladders.{ladder}]\n" for ladder in ladders))
    with cluster() as nodes, Server() as queue:
        url = "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        async with connect(url) as redis:
            for ladder in ladders:
                for number in range(300):
                    await publish(redis, match(number, ladder))
            # When two workers rate them
            with workers(2, RATINGS_REDIS_URL=url, RATINGS_ARQ_URL=queue.url, RATINGS_CONFIG=str(config)):
                await until_empty(redis, *ladders)
            # Then every ladder has all its events, and at least two nodes hold ladders
            for ladder in ladders:
                rated = Counter(event.match_id for event in await events(redis, ladder))
                assert set(rated.values()) == {1}
                assert len(rated) == 300
            holding = [node for node in nodes if list(node.client().scan_iter("ratings:*:rating-updated"))]
            assert len(holding) >= 2


async def test_a_worker_follows_a_slot_that_moves_to_another_node(tmp_path: Path) -> None:
    # Given a cluster and a running worker that has rated some matches
    with cluster() as nodes, Server() as queue:
        url = "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        async with connect(url) as redis:
            with workers(1, RATINGS_REDIS_URL=url, RATINGS_ARQ_URL=queue.url):
                for number in range(50):
                    await publish(redis, match(number, "backgammon"))
                await until_empty(redis, "backgammon")
                # When the ladder's slot moves to another node
                slot = redis.keyslot("{backgammon}")  # type: ignore[attr-defined]
                home = next(node for node in nodes if list(node.client().scan_iter("ratings:*", count=1000)))
                target = next(node for node in nodes if node is not home)
                move_slot(slot, home, target, nodes)
                for number in range(50, 100):
                    await publish(redis, match(number, "backgammon"))
                # Then it goes on there by itself
                await until_empty(redis, "backgammon")
            rated = Counter(event.match_id for event in await events(redis, "backgammon"))
            assert len(rated) == 100
            assert set(rated.values()) == {1}
            assert list(target.client().scan_iter("ratings:*:rating-updated"))


def move_slot(slot: int, home: Server, target: Server, nodes: list[Server]) -> None:
    source, destination = home.client(decode_responses=True), target.client(decode_responses=True)
    home_id, target_id = (str(client.execute_command("CLUSTER MYID")) for client in (source, destination))
    destination.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", home_id)
    source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target_id)
    while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 500):
        source.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, home, *nodes):
        node.client().execute_command("CLUSTER SETSLOT", slot, "NODE", target_id)


async def test_a_failover_during_load_loses_nothing_confirmed_and_rates_nothing_twice(tmp_path: Path) -> None:
    # Given a primary with two replicas, three Sentinels, two workers, and matches that keep coming
    with watched(tmp_path) as fleet, workers(2, RATINGS_REDIS_URL=fleet.url):
        async with connect(fleet.url) as redis:
            old = fleet.primary_port()
            sent = 0
            for number in range(3000):
                if number == 1000:
                    # When the primary is killed in the middle
                    fleet.primary.kill()
                await eventually(partial(confirmed, redis, match(number, "backgammon")))
                sent += 1
            # Then another server is the primary, and all that was confirmed is rated, once
            until(lambda: fleet.primary_port() != old)
            await until_empty(redis, "backgammon")
            rated = Counter(event.match_id for event in await events(redis, "backgammon"))
            assert len(rated) == sent == 3000
            assert set(rated.values()) == {1}
            assert await redis.xlen(Keys("backgammon").dead_letters) == 0
