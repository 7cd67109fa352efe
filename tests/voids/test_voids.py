"""Taking a match back: what the workers make of a MatchVoided message."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings.stream_names import GROUP
from match_ratings_worker.rating import SYSTEMS, GlickoPeriods
from tests.support.bench import Bench
from tests.support.clock import DAY
from tests.support.model import match, tournament
from tests.support.servers import RUN

pytestmark = pytest.mark.usefixtures("quiet")


async def test_a_match_is_taken_back_wholly_and_nothing_else(bench: Bench) -> None:
    # Given a match between two others of its players
    await bench.rate(match("m-1"), match("m-2", cube=4), match("m-3", ("ada", "cyd")))
    # When it is taken back
    await bench.rate(bench.void("m-2", "bob", "ada"))
    # Then its changes are, from today's ratings
    rated, void = (await bench.events())[1], (await bench.events())[3]
    assert (void.cause, void.match_id, void.why) == ("void", "m-2", "a test")
    assert {part.player: part.change for part in void.players} == {
        part.player: -part.change for part in rated.players
    }
    assert [part.sequence for part in void.players] == [3, 4]
    ada, bob = await bench.player("ada"), await bench.player("bob")
    assert (ada["games"], bob["games"], ada["sequence"], bob["sequence"]) == ("2", "1", "4", "3")
    assert [int(ada["rating"]), int(bob["rating"])] == [part.after for part in reversed(void.players)]
    # And the game is in no window, and the board and the counts are right
    assert set(await bench.games("ada")) == {"m-1", "m-3"}
    assert set(await bench.games("bob")) == {"m-1"}
    assert await bench.redis.zscore(bench.keys.leaderboard, "bob") == int(bob["rating"])
    assert await bench.counts() == {"rated": 3, "void": 1}
    assert not (await bench.audit()).total


@pytest.mark.parametrize("together", [True, False])
async def test_it_is_taken_back_once(bench: Bench, together: bool) -> None:
    first, second = bench.void("m-1"), bench.void("m-1", "bob", "ada", why="again")
    if together:
        await bench.rate(match("m-1"), first, second, match("m-1"))
    else:
        for message in (match("m-1"), first, second, match("m-1")):
            await bench.rate(message)
    assert await bench.counts() == {"rated": 1, "void": 1, "duplicate": 2}
    assert [event.cause for event in await bench.events()] == ["match", "void"]
    assert (await bench.player("ada"))["rating"] == "1500"
    assert not await bench.dead()


async def test_what_cannot_be_taken_back_is_a_dead_letter_that_says_why(bench: Bench) -> None:
    await bench.rate(match("m-1"), match("m-2", mode="boosted"), tournament("t-1"), match("m-3", winner=None))
    await bench.rate(
        bench.void("m-0"),
        bench.void("m-1", "ada", "cyd"),
        bench.void("m-2"),
        bench.void("m-3"),
        bench.void("t-1"),
        bench.void("m-1", ledger_id="1-0"),
    )
    assert await bench.dead() == [
        ("invalid", "winner: null is a draw, which backgammon does not have; name the player who won"),
        ("invalid", 'match_id: "m-0" is not known; there is nothing to take back'),
        ("invalid", 'players: ["ada", "cyd"] is not allowed; the match was between ["ada", "bob"]'),
        ("invalid", 'match_id: "m-2" was not rated by the rules; there is nothing to take back'),
        ("invalid", 'match_id: "m-3" is not known; there is nothing to take back'),
        ("invalid", 'match_id: "t-1" is not known; there is nothing to take back'),
    ]
    # The last one's receipt tells its place, whatever the message says.
    assert await bench.counts() == {
        "rated": 1, "not-rated": 1, "prize": 1, "dead:invalid": 6, "void": 1,
    }  # fmt: skip


async def test_a_match_without_a_receipt_is_taken_back_by_its_place_in_the_ledger_once(bench: Bench) -> None:
    await bench.rate(match("m-1"), match("m-2"), tournament("t-1"))
    places = [event.id for event in await bench.events()]
    await bench.redis.delete(bench.keys.receipt("m-1"), bench.keys.receipt("m-2"))
    # A place that is another event's, or nobody's, is refused
    await bench.rate(
        bench.void("m-1", ledger_id=places[1]),
        bench.void("m-1", ledger_id=places[2]),
        bench.void("m-1", ledger_id="999999999999999999-0"),
        bench.void("m-1"),
    )
    assert [detail.partition(" is ")[0] for _, detail in await bench.dead()] == [
        f'ledger_id: "{places[1]}"',
        f'ledger_id: "{places[2]}"',
        'match_id: "m-1"',
        'match_id: "m-1"',
    ]
    # The right one is taken, and never again
    await bench.rate(bench.void("m-1", ledger_id=places[0]), bench.void("m-1", ledger_id=places[0]))
    assert (await bench.counts())["void"] == (await bench.counts())["duplicate"] == 1
    assert await bench.redis.ttl(bench.keys.void_receipt_ + "m-1") > 50 * 365 * 86_400
    await bench.redis.set(bench.keys.receipt("m-1"), f"{places[0]} x")
    await bench.redis.delete(bench.keys.receipt("m-2"))
    report = await bench.audit()
    assert [difference.kind for difference in report.first] == ["receipt"]


async def test_later_matches_of_the_same_batch_do_not_count_the_game_that_was_taken_back(
    bench: Bench,
) -> None:
    # Given a player with 50 games, of whom one is taken back just before the next match
    games = [match(f"m-{n}", ("ada", f"p{n}"), finished_at=bench.now - DAY) for n in range(50)]
    await bench.rate(*games)
    await bench.rate(bench.void("m-7", "ada", "p7"), match("next"))
    # Then that match counts 49
    part = (await bench.events())[-1].players[0]
    assert (part.player, part.recent_games, part.k) == ("ada", 49, 32)
    assert not (await bench.audit()).total


@pytest.mark.parametrize("name", SYSTEMS)
async def test_in_every_system_the_ledger_tells_the_state_after(redis: Redis, ladder: str, name: str) -> None:
    bench = Bench(redis, ladder, SYSTEMS[name]())
    played = [match(f"m-{n}", length=5, finished_at=bench.now - 1000 + n) for n in range(4)]
    await bench.rate(*played[:2])
    before = [await bench.player(player) for player in ("ada", "bob")]
    await bench.rate(*played[2:], match("m-9", ("ada", "cyd"), length=3))
    await bench.rate(bench.void("m-3"), bench.void("m-2"))
    after = [await bench.player(player) for player in ("ada", "bob")]
    assert not await bench.dead()
    # Nobody keeps points, games or experience of what was taken back
    assert float(after[1]["rating"]) == pytest.approx(float(before[1]["rating"]))
    assert after[1]["games"] == before[1]["games"]
    for field in {"experience", "period_games", "period_gain"} & before[1].keys():
        assert float(after[1][field]) == pytest.approx(float(before[1][field]))
    assert not (await bench.audit()).total


async def test_a_game_of_a_closed_period_is_refused(redis: Redis, ladder: str) -> None:
    bench = Bench(redis, ladder, GlickoPeriods(period_days=1))
    await bench.rate(match("m-1", finished_at=bench.now - 5 * DAY), match("m-2"))
    await bench.rate(bench.void("m-1"), bench.void("m-2"))
    assert [reason for reason, _ in await bench.dead()] == ["invalid"]
    assert [event.cause for event in await bench.events()] == ["match", "period", "period", "match", "void"]
    assert not (await bench.audit()).total


async def test_killed_at_any_point_it_is_taken_back_once(bench: Bench) -> None:
    await bench.rate(match("m-1"), match("m-2"))
    # Given a worker that claims the message and dies
    await bench.send(bench.void("m-1"))
    dead = bench.engine("dead")
    await dead.claim_new()
    assert await bench.redis.xlen(bench.keys.inbox) == 1
    # When another takes it over, and dies when it has committed but not heard the answer
    other = bench.engine("other")
    await other.claim_stale()
    entries = list(other.waiting.values())
    await other.settle()
    await other.drain()
    assert await bench.redis.xlen(bench.keys.inbox) == 0
    # Then neither the first, when it wakes up, nor a third can do it again
    await dead.settle()
    await dead.drain()
    third = bench.engine("third")
    await third.claim_stale()
    third.waiting = {entry.id: entry for entry in entries}
    await third.settle()
    await third.drain()
    assert await bench.counts() == {"rated": 2, "void": 1}
    assert (await bench.redis.xpending(bench.keys.inbox, GROUP))["pending"] == 0
    assert not (await bench.audit()).total


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), workers=st.integers(2, 5))
async def test_any_number_of_workers_does_the_same(server: Endpoint, seed: int, workers: int) -> None:
    pictures: list[dict[str, Any]] = []
    now = None
    for count in (1, workers):
        async with Redis.from_url(server.url) as redis:
            bench = Bench(redis, f"t-{RUN}-{uuid.uuid4().hex[:8]}")
            bench.now = now = now or bench.now
            messages = bench.traffic(random.Random(seed), 120)
            await bench.rate(*messages, workers=count, batch=16 if count > 1 else 7, chunk=5)
            report = await bench.audit()
            assert not report.total, report.first
            picture = await bench.picture()
            pictures.append({name: _unnamed(value, bench.ladder) for name, value in picture.items()})
            async for key in redis.scan_iter(match=f"ratings:{{{bench.ladder}}}*", count=1000):
                await redis.unlink(key)
    assert pictures[0] == pictures[1]


def _unnamed(value: Any, ladder: str) -> Any:
    """The same without the ladder's name."""
    return (
        [{**item, "ladder": ""} if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
    )
