"""A shadow rates beside another rater, with keys of its own, never together with authoritative workers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from embedded import Endpoint
from match_ratings import rating_updates
from match_ratings import stream_names as names
from match_ratings_worker.migration import Shadow, ShadowRunning
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import DAY, now_ms
from tests.support.command_line import Cli
from tests.support.migration import dump, events
from tests.support.waiting import PATIENCE, eventually, until

Players = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
async def client(server: Endpoint) -> AsyncIterator[Redis]:
    async with connect(server.url) as redis:
        yield redis


def engine_of(redis: Redis, ladder: str, name: str, *, shadow: bool, idle: int = 30_000) -> BatchProcessor:
    store = LadderStore(redis, ladder, Backgammon(), horizon=14 * DAY, shadow=shadow)
    return BatchProcessor(store, ladder, Backgammon(), name, Limits(idle=idle))


async def send(redis: Redis, ladder: str, *match_ids: str) -> None:
    for match_id in match_ids:
        match = {"match_id": match_id, "ladder": ladder, "players": ["ada", "bob"], "winner": "ada"}
        raw = json.dumps({**match, "finished_at": now_ms() - 1000})
        await redis.xadd(names.inbox(ladder), {"message": raw})


async def work(engine: BatchProcessor) -> None:
    assert await engine.store.join_group() == "entered"
    while await engine.claim_new() or engine.waiting:
        await engine.settle()
    await engine.drain()


def tries_of(engine: BatchProcessor) -> list[str]:
    """What the engine hears when it tries to join its ladder from now on, as a list that grows."""
    join, heard = engine.store.join_group, list[str]()

    async def counted() -> Any:
        heard.append(await join())
        return heard[-1]

    engine.store.join_group = counted  # type: ignore[method-assign]
    return heard


async def is_cleared(client: Redis, ladder: str) -> bool:
    """Clears the shadow once its workers have been silent for 10 ms."""
    try:
        await Shadow(client, ladder).clear(10)
    except ShadowRunning:
        return False
    return True


async def test_it_reads_the_inbox_and_writes_to_keys_of_its_own(client: Redis, ladder: str) -> None:
    await send(client, ladder, "m-1")
    await client.xadd(names.inbox(ladder), {"message": "{"})
    engine = engine_of(client, ladder, "one", shadow=True)
    await work(engine)
    await engine.shut_down()
    found = sorted([key.decode() async for key in client.scan_iter(f"ratings:{{{ladder}}}:*", count=1000)])
    scope = f"ratings:{{{ladder}}}"
    own = [key.removeprefix(f"{scope}:shadow:") for key in found if key.startswith(f"{scope}:shadow:")]
    assert [key for key in found if not key.startswith(f"{scope}:shadow:")] == [f"{scope}:match-finished"]
    assert set(own) >= {"rating-updated", "dead-letters", "leaderboard", "counts", "receipt:m-1"}
    assert set(own) >= {"player:ada", "player:bob", "games:ada", "games:bob"}
    assert not await client.xlen(names.inbox(ladder))
    assert names.outbox(ladder, shadow=True) == f"{scope}:shadow:rating-updated"
    # What consumes events may ask for the shadow's.
    updates = rating_updates(client, ladder, start="0", shadow=True)
    event = await anext(updates)
    assert (event.match_id, event.players[0].after) == ("m-1", 1516)


async def test_the_same_ratings_as_authoritative_workers(client: Redis, ladder: str) -> None:
    other = f"{ladder}-live"
    for name in (ladder, other):
        for number in range(50):
            pair = [f"p-{number % 7}", f"p-{number % 5 + 7}"]
            match = {"match_id": f"m-{number}", "ladder": name, "players": pair, "winner": pair[number % 2]}
            raw = json.dumps({**match, "cube": 2 ** (number % 4), "finished_at": 1_700_000_000_000 + number})
            await client.xadd(names.inbox(name), {"message": raw})
        engine = engine_of(client, name, "one", shadow=name == ladder)
        engine.limits = Limits(horizon=10_000 * DAY)
        await work(engine)
    shadows = [event async for event in _ledger(client, Keys(ladder, shadow=True))]
    live = [event async for event in _ledger(client, Keys(other))]
    assert len(live) == 50
    assert shadows == live


async def _ledger(client: Redis, keys: Keys) -> AsyncIterator[dict[str, Any]]:
    for _, fields in await client.xrange(keys.outbox):
        event = json.loads(fields[b"message"])
        yield {name: value for name, value in event.items() if name not in ("rated_at", "ladder")}


async def test_neither_rates_where_the_other_does(client: Redis, ladder: str) -> None:
    shadow, live = (engine_of(client, ladder, name, shadow=name == "shadow") for name in ("shadow", "live"))
    # The first there has the ladder, for good
    assert await shadow.store.join_group() == "entered"
    assert await live.store.join_group() == "shadow"
    assert await shadow.store.join_group() == "entered"
    assert [group["name"] for group in await client.xinfo_groups(names.inbox(ladder))] == [b"shadow-raters"]
    # until the shadow is cleared
    assert await Shadow(client, ladder).clear(1000) == 0
    assert await live.store.join_group() == "entered"
    # and then no shadow takes the matches away, though no worker runs at the moment
    assert await shadow.store.join_group() == "live"


async def test_only_one_of_both_wins_a_race(client: Redis, ladder: str) -> None:
    stores = [engine_of(client, ladder, f"w-{n}", shadow=n % 2 == 0).store for n in range(20)]
    sides = await asyncio.gather(*(store.join_group() for store in stores))
    assert len(await client.xinfo_groups(names.inbox(ladder))) == 1
    assert sorted(set(sides)) in (["entered", "live"], ["entered", "shadow"])
    assert sides.count("entered") == 10


async def test_an_intake_waits_until_the_shadow_is_cleared(client: Redis, ladder: str) -> None:
    shadow = engine_of(client, ladder, "shadow", shadow=True)
    await send(client, ladder, "m-1")
    await work(shadow)
    live = StreamConsumer(engine_of(client, ladder, "live", shadow=False))
    tries = tries_of(live.engine)
    with capture_logs() as logs:
        running = asyncio.create_task(live.run())
        await send(client, ladder, "m-2")
        await eventually(lambda: any(item["event"].startswith("not rating") for item in logs))
        await eventually(lambda: len(tries) >= 2)
        assert await client.xlen(names.inbox(ladder)) == 1
        await shadow.shut_down()
        await Shadow(client, ladder).clear(1000)
        await eventually(lambda: live.engine.settled.total() == 1)
    live.stop()
    await running
    said = [item["event"] for item in logs if item["log_level"] in ("error", "warning")]
    assert said == [
        "not rating: this ladder has a shadow, which takes the matches; stop its workers and run "
        "match-ratings shadow clear"
    ]
    assert "the ladder is free now" in [item["event"] for item in logs]
    assert await client.xlen(names.outbox(ladder)) == 1


async def test_an_intake_that_never_got_in_stops_at_once(client: Redis, ladder: str) -> None:
    await engine_of(client, ladder, "shadow", shadow=True).store.join_group()
    live = StreamConsumer(engine_of(client, ladder, "live", shadow=False))
    with capture_logs() as logs:
        running = asyncio.create_task(live.run())
        await eventually(lambda: logs)
        live.stop()
        await asyncio.wait_for(running, PATIENCE)
    assert [item["log_level"] for item in logs] == ["error"]


async def test_what_a_shadow_has_claimed_is_still_there_for_the_others(client: Redis, ladder: str) -> None:
    # Given a shadow whose worker is killed with two matches in hand
    shadow = engine_of(client, ladder, "shadow", shadow=True)
    await send(client, ladder, "m-1", "m-2")
    assert await shadow.store.join_group() == "entered"
    assert await shadow.claim_new() == 2
    await send(client, ladder, "m-3")
    # When it is cleared, as soon as that worker counts as gone
    with pytest.raises(ShadowRunning, match="shadow"):
        await Shadow(client, ladder).clear(60_000)
    await eventually(partial(is_cleared, client, ladder))
    # Then authoritative workers rate all three
    live = engine_of(client, ladder, "live", shadow=False)
    await work(live)
    assert live.settled == {"rated": 3}


async def test_a_worker_that_slept_through_the_clearing_changes_nothing(client: Redis, ladder: str) -> None:
    # Given a shadow's worker that sleeps with a match in hand
    sleeper = engine_of(client, ladder, "sleeper", shadow=True)
    await send(client, ladder, "m-1")
    await sleeper.store.join_group()
    await sleeper.store.ensure_adopted()
    assert await sleeper.claim_new() == 1
    # When the shadow is cleared meanwhile
    await eventually(partial(is_cleared, client, ladder))
    # Then its commit is refused, and the match is there for the others
    await sleeper.settle()
    with pytest.raises(ResponseError, match="OTHERSETTINGS"):
        await sleeper.drain()
    assert await client.xlen(names.inbox(ladder)) == 1
    live = engine_of(client, ladder, "live", shadow=False)
    await work(live)
    assert live.settled == {"rated": 1}
    assert await sleeper.store.join_group() == "live"


async def test_a_new_shadow_after_a_cleared_one(client: Redis, ladder: str) -> None:
    await send(client, ladder, "m-1")
    first = engine_of(client, ladder, "one", shadow=True)
    await work(first)
    await first.shut_down()
    assert await Shadow(client, ladder).clear(1000) > 5
    assert await client.pttl(Keys(ladder, shadow=True).settings) > 0
    await send(client, ladder, "m-1")
    second = engine_of(client, ladder, "two", shadow=True)
    await work(second)
    assert await second.store.ensure_adopted()
    assert second.settled == {"rated": 1}
    assert await client.hget(Keys(ladder, shadow=True).player("ada"), "sequence") == b"1"  # type: ignore[misc]


def test_clear_asks_first(site: Any, call: Cli, spawn: Spawn) -> None:
    result = call("shadow", "clear")
    assert result.code == 2 and "--yes: it is required" in result.err
    result = call("shadow", "clear", "--yes", "--json")
    assert (result.code, result.json) == (0, {"ladder": site.ladder, "keys": 0})


@pytest.mark.parametrize(("number", "when"), [(1, "before"), (1, "after"), (2, "before"), (2, "after")])
def test_a_clearing_that_is_killed_is_done_by_the_next(
    site: Any, call: Cli, killed: Callable[..., bool], players: Players, number: int, when: str
) -> None:
    file = players({"player": "ada", "rating": 1600, "games": 0})
    assert call("import", "--shadow", file).code == 0
    keys = Keys(site.ladder, shadow=True)
    assert killed(number, when, "clear_shadow", "shadow", "clear", "--yes")
    if (number, when) in ((1, "after"), (2, "before")):  # begun, and not ended: nobody is let in
        error = call("import", "--shadow", file).err
        assert error.endswith("is being cleared; run shadow clear to its end\n")
    assert call("shadow", "clear", "--yes").code == 0
    assert set(dump(site.redis, keys)) == set()
    assert site.redis.hgetall(keys.settings) == {b"digest": b"cleared"}
    assert not site.redis.xinfo_groups(keys.inbox)


@contextlib.contextmanager
def running(spawn: Spawn, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process that has begun."""
    process = spawn("worker", *arguments, env={**os.environ, **environment})
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if json.loads(line)["event"] == "rating":
                break
        yield process
    finally:
        process.kill()
        process.communicate()


def test_beside_an_old_rater_and_over_to_this_one(
    site: Any, call: Cli, spawn: Spawn, players: Players
) -> None:
    """The whole way, as the README has it."""
    # Given an old rater's players, and matches that the server sends to both from now on
    at = now_ms() - 60_000
    recent = [{"match_id": "m-1", "finished_at": at}]
    ada = {"player": "ada", "rating": 1620, "games": 11, "recent_games": recent}
    bob = {"player": "bob", "rating": 1480, "games": 8, "recent_games": recent}
    site.send(site.match("m-1", finished_at=at))
    assert call("import", "--shadow", players(ada, bob)).code == 0
    # When a shadow rates beside it
    with running(spawn, "--shadow") as process:
        site.send(site.match("m-2"), site.match("m-3", ("bob", "ada")))
        until(lambda: not site.redis.xlen(site.keys.inbox))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    # Then both can be compared
    changes = [
        {"match_id": "m-2", "player": "ada", "change": 14, "after": 1634},
        {"match_id": "m-2", "player": "bob", "change": -14, "after": 1466},
        {"match_id": "m-3", "player": "ada", "change": -19, "after": 1615},
        {"match_id": "m-3", "player": "bob", "change": 19, "after": 1485},
    ]
    compared = call("compare", players(*changes, name="old.jsonl"))
    assert compared.code == 0, compared.out
    assert "equal      4" in compared.out.replace("  equal", "equal")
    shown = call("player", "ada")
    assert shown.code == 1  # not in the ladder's own keys
    # When the old rater is stopped, its ratings are imported, and the shadow makes way
    recent += [{"match_id": name, "finished_at": now_ms() - 60_000} for name in ("m-2", "m-3")]
    ada = {"player": "ada", "rating": 1616, "games": 13, "recent_games": recent}
    bob = {"player": "bob", "rating": 1484, "games": 10, "recent_games": recent}
    assert call("import", players(ada, bob)).code == 0
    assert call("shadow", "clear", "--yes").code == 0
    site.send(site.match("m-3", ("bob", "ada")), site.match("m-4"))
    with running(spawn) as process:
        until(lambda: not site.redis.xlen(site.keys.inbox))
    # Then the ladder goes on from there, and rates nothing again
    last = events(site.redis, site.keys.outbox)[-1]
    assert last["match_id"] == "m-4"
    assert [(part["before"], part["sequence"], part["recent_games"]) for part in last["players"]] == [
        (1616, 2, 3),
        (1484, 2, 3),
    ]
    assert site.redis.hget(site.keys.counts, "duplicate") == b"1"


def test_workers_of_both_kinds_at_once(site: Any, call: Cli, spawn: Spawn) -> None:
    with running(spawn, RATINGS_SHADOW="1"):
        until(lambda: bool(site.redis.exists(site.keys.inbox)))
        with running(spawn) as live:
            assert live.stderr is not None
            line = json.loads(next(line for line in live.stderr if b"not rating" in line))
            assert (line["level"], line["ladder"]) == ("error", site.ladder)
            site.send(site.match("m-1"))
            until(lambda: not site.redis.xlen(site.keys.inbox))
            live.send_signal(signal.SIGTERM)
            assert live.wait(10) == 0
        assert call("shadow", "clear", "--yes").code == 1
    assert not site.redis.exists(site.keys.outbox)
    assert site.redis.xlen(Keys(site.ladder, shadow=True).outbox) == 1


def test_the_commands_look_at_the_shadow_when_asked(site: Any, call: Cli, players: Players) -> None:
    assert call("import", "--shadow", players({"player": "ada", "rating": 1600, "games": 7})).code == 0
    assert call("leaderboard").err == f"nobody is on the leaderboard of {site.ladder} yet\n"
    settings = pytest.MonkeyPatch()
    settings.setenv("RATINGS_SHADOW", "1")
    try:
        assert call("leaderboard").rows == [["1", "1600", "7", "ada"]]
        assert call("player", "ada").code == 0
        assert call("status").out.startswith(f"{site.ladder}, its shadow (system backgammon)\n")
        assert call("status", "--json").json["ladders"][0]["players"] == 1
        assert call("audit").code == 0
    finally:
        settings.undo()
