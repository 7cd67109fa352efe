"""Rating periods in operation: closed once, at the right point of the stream, whoever does it and when."""

from __future__ import annotations

import random
from typing import Any

import pytest
from redis.asyncio import Redis

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.calculators import FidePlayer, period
from match_ratings_worker.ledger import Ledger, period_games
from match_ratings_worker.pipeline.close_due_periods import PeriodCloser
from match_ratings_worker.rating import Backgammon, Fide, GlickoPeriods, RatingSystem
from match_ratings_worker.rating.fide import FidePeriodState
from match_ratings_worker.storage.ladder_handle import LadderHandle
from tests.support.clock import DAY, HOUR, month_start, now_ms
from tests.support.rounds import Rounds


def end() -> int:
    """The end of a month that has been over for at least four weeks, in ms."""
    return month_start(1)


def of(events: list[RatingUpdated], player: str, cause: Cause = Cause.PERIOD) -> list[RatingUpdated]:
    return [
        event
        for event in events
        if event.cause is cause and any(part.player == player for part in event.players)
    ]


@pytest.fixture
def fide(redis: Redis, ladder: str) -> Rounds:
    return Rounds(redis, ladder, Fide(k=20))


async def test_a_month_that_is_over_is_closed_once_with_one_event_for_each_player(fide: Rounds) -> None:
    # Given three games in a month that is over
    games = [("bob", 1.0), ("cid", 0.5), ("dan", 1.0)]
    for number, (opponent, score) in enumerate(games):
        await fide.play(f"m{number}", ("ada", opponent), score, at=end() - DAY + number)
    await fide.rate()
    assert (await fide.state("ada")).rating == 1500
    # When it is closed
    closed = await fide.close()
    # Then each player has the change that FIDE's period gives, in one event with the figures behind it.
    expected = period(
        FidePlayer(1500, games=0), [(1500, score) for _, score in games], at=end() - DAY, system=Fide(k=20)
    )
    assert {item.player: item.change for item in closed} == {"ada": 20, "bob": -10, "cid": 0, "dan": -10}
    assert expected.change == 20 and (await fide.state("ada")).rating == 1520
    assert (await fide.listed())["ada"] == 1520
    events = await fide.events()
    (event,) = of(events, "ada")
    (part,) = event.players
    assert (part.sequence, part.figures["period_games_before"], event.finished_at) == (4, 3, end())
    assert fide.system.recompute_close(part).change == part.change == 20
    assert await period_games(
        Ledger(LadderHandle(fide.redis, fide.store.ladder, fide.system)), event, "ada"
    ) == ["m0", "m1", "m2"]
    # And closing again changes nothing.
    assert await fide.close() == []
    assert await fide.events() == events
    assert await fide.redis.zcard(fide.keys.open_periods) == 0
    assert await fide.redis.hget(fide.keys.counts, "closed") == b"4"


async def test_a_month_that_is_not_over_and_one_within_its_grace_stay_open(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, Fide())
    await rounds.play("m1", ("ada", "bob"))
    await rounds.rate()
    assert await rounds.close() == []
    await redis.zadd(rounds.keys.open_periods, {"ada": month_start(0) + 20 * 366 * DAY})
    assert await rounds.close() == []


async def test_a_message_that_waits_keeps_periods_open_that_it_may_belong_to(fide: Rounds) -> None:
    # Given a game that is rated, and one of other players that came in within the grace and waits
    await fide.play("m1", ("ada", "bob"), at=end() - DAY)
    await fide.rate()
    waits = await fide.play("m2", ("cid", "dan"), at=end() - HOUR, came=end() + HOUR - 1)
    assert await fide.close() == []
    # While it is claimed it waits as well.
    await fide.worker.claim_new()
    assert await fide.close() == []
    assert waits in fide.worker.waiting
    # When it is done, all four are closed.
    await fide.rate()
    assert {item.player for item in await fide.close()} == {"ada", "bob", "cid", "dan"}


async def test_a_message_that_came_in_after_the_grace_keeps_nothing_open(fide: Rounds) -> None:
    await fide.play("m1", ("ada", "bob"), at=end() - DAY)
    await fide.rate()
    await fide.play("m2", ("ada", "bob"), at=end() - 1, came=end() + HOUR)
    assert {item.player for item in await fide.close()} == {"ada", "bob"}


@pytest.mark.parametrize(("came", "games"), [(HOUR - 1, 2), (HOUR, 1)])
@pytest.mark.parametrize("closed_first", [False, True])
async def test_the_stream_alone_decides_which_period_a_late_game_enters(
    fide: Rounds, came: int, games: int, closed_first: bool
) -> None:
    # Given a game of the month, and one that finished in it and came in after its end
    await fide.play("m1", ("ada", "bob"), at=end() - DAY)
    await fide.rate()
    if closed_first:  # a job that runs just before the late game comes in
        await fide.close(until=end() + came - HOUR)
    await fide.play("m2", ("ada", "bob"), at=end() - 1, came=end() + came)
    if closed_first:  # and one that runs while it waits
        await fide.close()
    await fide.rate()
    await fide.close()
    # Then it is the grace that decides, not who closed when.
    (event, *_) = of(await fide.events(), "ada")
    assert event.players[0].figures["period_games_before"] == games


async def test_prizes_and_voids_meet_the_same_state_whoever_closed_before(redis: Redis, ladder: str) -> None:
    ends = []
    for number, closes in enumerate((False, True)):
        rounds = Rounds(redis, f"{ladder}-{number}", Fide(k=40))
        await rounds.play("m1", ("ada", "bob"), at=end() - DAY)
        await rounds.play("m2", ("ada", "bob"), at=end() - DAY + 1)
        await rounds.rate()
        if closes:
            await rounds.close()
        prize = {"type": "tournament-finished", "tournament_id": "t", "public": True, "podium": ["ada"]}
        await rounds.send_at(end() + HOUR, {**prize, "finished_at": end() - DAY})
        void = {"type": "match-voided", "match_id": "m1", "players": ["ada", "bob"], "why": "w"}
        await rounds.send_at(end() + HOUR, {**void, "finished_at": end() - DAY})
        await rounds.rate()
        await rounds.close()
        assert await rounds.dead() == []
        events = await rounds.events()
        ends.append(
            [
                (event.cause, part.player, part.before, part.change, part.after, part.sequence)
                for event in events
                for part in event.players
                if part.player == "ada"
            ]
        )
    assert ends[0] == ends[1]
    assert [cause for cause, *_ in ends[0]][:5] == ["match", "match", "period", "prize", "void"]


@pytest.mark.parametrize(
    "system", [Fide(), GlickoPeriods(period_days=1, grace_hours=2)], ids=lambda item: item.name
)
@pytest.mark.parametrize("seed", range(4))
async def test_closing_at_any_moment_gives_the_same_ratings(
    redis: Redis, ladder: str, system: RatingSystem, seed: int
) -> None:
    # Given matches over two months, some of them late by up to six hours
    dice = random.Random(seed)
    grace = system.period_grace or 0
    over = now_ms() - grace  # a period that ends while this runs stays open on both ladders
    players = [f"p{number}" for number in range(8)]
    matches = []
    for number in range(120):
        at = end() - 20 * DAY + number * 8 * HOUR
        came = at + dice.choice([0, 0, 0, HOUR // 2, 3 * HOUR, 6 * HOUR])
        matches.append((came, f"m{number}", tuple(dice.sample(players, 2)), dice.choice([1.0, 0.5, 0.0]), at))
    matches.sort()
    pictures = []
    # When one ladder is rated in one go, and another by two workers, with a job that closes at random moments
    for number, busy in enumerate((False, True)):
        rounds = Rounds(redis, f"{ladder}-{number}", system)
        second = rounds.new_engine()
        for came, match_id, pair, score, at in matches:
            await rounds.play(match_id, pair, score, at=at, came=came)  # type: ignore[arg-type]
            if busy and dice.random() < 0.3:
                await rounds.rate(dice.choice([rounds.worker, second]))
            if busy and dice.random() < 0.3:  # at the time at which this message came in
                await rounds.close(until=came - grace)
        await rounds.rate()
        await rounds.close(until=over)
        pictures.append(
            {
                name: [_seen(event, name) for event in await rounds.events() if _seen(event, name)]
                for name in players
            }
        )
        assert await rounds.dead() == []
    # Then every player has the same changes in the same order.
    assert pictures[0] == pictures[1]
    assert any(
        change["cause"] == "period" for changes in pictures[0].values() for change in changes if change
    )


def _seen(event: RatingUpdated, player: str) -> dict[str, Any] | None:
    for part in event.players:
        if part.player == player:
            return {
                "cause": event.cause.value,
                "at": event.finished_at,
                "id": event.match_id,
                **part.model_dump(),
            }
    return None


async def test_the_games_behind_a_period_without_those_that_do_not_count(redis: Redis, ladder: str) -> None:
    # Given an unrated player who plays five rated ones, an unrated one, and a game that is taken back
    rounds = Rounds(redis, ladder, Fide(start=0))
    rated = {
        "rating": 1600,
        "sequence": 0,
        "games": 40,
        "last_game": 0,
        **dict.fromkeys(FidePeriodState._fields, 0),
    }
    for name in ("r1", "r2", "r3", "r4", "r5"):
        await rounds.redis.hset(rounds.keys.player(name), mapping=rated)
    opponents = ["r1", "new", "r2", "r3", "r4", "r5", "r1"]
    for number, opponent in enumerate(opponents):
        await rounds.play(f"m{number}", ("ada", opponent), at=end() - DAY + number)
    void = {"type": "match-voided", "match_id": "m3", "players": ["ada", "r3"], "why": "w"}
    await rounds.send_at(end() - HOUR, {**void, "finished_at": end() - HOUR})
    await rounds.rate()
    await rounds.close()
    (event,) = of(await rounds.events(), "ada")
    assert event.players[0].figures["period_games_before"] == 5
    assert await period_games(
        Ledger(LadderHandle(redis, rounds.store.ladder, rounds.system)), event, "ada"
    ) == ["m0", "m2", "m4", "m5", "m6"]
    assert (await rounds.state("ada")).rating == event.players[0].after > 1600


async def test_a_period_of_another_settings_worker_is_not_closed(fide: Rounds) -> None:
    await fide.play("m1", ("ada", "bob"), at=end() - DAY)
    await fide.rate()
    other = Rounds(fide.redis, fide.ladder, Fide(k=10))
    with pytest.raises(Exception, match="OTHERSETTINGS"):
        await other.close()
    assert len(await fide.close()) == 2


async def test_what_cannot_be_read_or_has_no_period_is_passed_over(fide: Rounds) -> None:
    for number in range(70):  # more than one chunk
        await fide.play(f"m{number}", (f"a{number}", f"b{number}"), at=end() - DAY + number)
    await fide.rate()
    await fide.redis.zadd(fide.keys.open_periods, {"gone": 1, "a0": 2})
    await fide.redis.hset(fide.keys.player("b5"), "rating", "much")
    closing = PeriodCloser(fide.store)
    closed = [item.player async for chunk in closing.run() for item in chunk]
    assert len(closed) == 139 == closing.closed and "b5" not in closed
    assert closing.passed == 2


async def test_systems_that_rate_by_game_have_nothing_to_close(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, Backgammon())
    await rounds.play("m1", ("ada", "bob"))
    await rounds.rate()
    assert await rounds.close() == [] and not await redis.exists(rounds.keys.open_periods)
