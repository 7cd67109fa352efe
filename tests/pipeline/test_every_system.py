"""Every rating system through the real engine on a real server: modes, draws, prizes, voids, periods.

Whatever a system is, its events can be computed again from themselves, what is stored is what they say, and
rating the ledger again from the start in memory gives the same states.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from redis.asyncio import Redis

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.evaluation import HistoryRecord, LedgerReader, Simulation, Void
from match_ratings_worker.pipeline.message_batch import Commit, InboxEntry, StateChange
from match_ratings_worker.rating import (
    SYSTEMS,
    Backgammon,
    Fibs,
    Fide,
    Glicko,
    Glicko2,
    GlickoPeriods,
    RatingSystem,
    State,
)
from tests.support.clock import DAY, HOUR, month_start, now_ms
from tests.support.rounds import Rounds

ALL: list[RatingSystem] = [
    *(system() for system in SYSTEMS.values()),
    Backgammon(rules={"1.0.5": month_start(4), "1.2.0": month_start(2) - 10 * DAY, "1.3.1": month_start(2)}),
    Fide(period="game", expectation="curve"),
    Fide(start=0),
    GlickoPeriods(period_days=2.5, grace_hours=5),
]


def name_of(system: RatingSystem) -> str:
    changed = [key for key, value in system if value != getattr(type(system)(), key)]
    return "-".join([system.name, *changed])


every_system = pytest.mark.parametrize("system", ALL, ids=name_of)


@pytest.fixture
def rounds(redis: Redis, ladder: str, system: RatingSystem) -> Rounds:
    return Rounds(redis, ladder, system)


def at_rest(system: RatingSystem) -> State:
    """An established player, so that every game counts in every system."""
    state = system.initial()
    return state._replace(rating=1500 if system.integer_ratings else 1500.0)


async def establish(rounds: Rounds, *players: str) -> None:
    """Puts players into Redis who are rated, as an import does."""
    state = at_rest(rounds.system)
    for player in players:
        own = dict(zip(rounds.system.state_fields, map(repr, state.extra), strict=True))
        mapping: dict[Any, Any] = {
            "rating": repr(state.rating),
            "sequence": 0,
            "games": 0,
            "last_game": 0,
            **own,
        }
        await rounds.redis.hset(rounds.keys.player(player), mapping=mapping)


@every_system
async def test_boosted_and_tournament_games_change_nothing_and_do_not_count(rounds: Rounds) -> None:
    await establish(rounds, "ada", "bob")
    before = await rounds.state("ada")
    for number, mode in enumerate(["boosted", "casual", "tournament"]):
        await rounds.play(f"x{number}", ("ada", "bob"), mode=mode, length=5, at=now_ms() - 5000)
    await rounds.rate()
    assert await rounds.events() == [] and await rounds.dead() == []
    assert await rounds.state("ada") == before
    await rounds.play("m", ("ada", "bob"), length=5)
    await rounds.rate()
    (event,) = await rounds.events()
    assert [part.recent_games for part in event.players] == [0, 0]
    assert (await rounds.state("ada")).games == 1


@every_system
async def test_a_draw_is_rated_where_there_are_draws_and_a_dead_letter_elsewhere(rounds: Rounds) -> None:
    await establish(rounds, "ada", "bob")
    await rounds.play("m", ("ada", "bob"), 0.5, length=5)
    await rounds.rate()
    if rounds.system.draws:
        (event,) = await rounds.events()
        assert [part.score for part in event.players] == [0.5, 0.5] and await rounds.dead() == []
    else:
        ((reason, detail),) = await rounds.dead()
        assert reason == "invalid" and detail.startswith("winner: null is a draw, which backgammon does not")
        assert await rounds.events() == []


async def test_fibs_sets_unlimited_matches_aside(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, Fibs())
    await rounds.play("m", ("ada", "bob"))
    await rounds.rate()
    assert await rounds.events() == [] and await rounds.dead() == []
    assert await redis.get(rounds.keys.receipt("m"))


@every_system
async def test_prizes_of_public_tournaments_move_ratings_once(rounds: Rounds) -> None:
    await establish(rounds, "ada", "bob", "cid")
    tournament = {
        "type": "tournament-finished",
        "podium": ["ada", "bob", "cid"],
        "finished_at": now_ms() - 5000,
    }
    for _ in range(2):
        await rounds.send({**tournament, "tournament_id": "t", "public": True})
    await rounds.send({**tournament, "tournament_id": "private", "public": False})
    await rounds.send({**tournament, "tournament_id": "new", "public": True, "podium": ["new"]})
    await rounds.rate()
    first, second = await rounds.events()
    assert first.cause is Cause.PRIZE and [part.change for part in first.players] == [50, 25, 15]
    ratings = [(await rounds.state(name)).rating for name in ("ada", "bob", "cid")]
    assert ratings == [1550, 1525, 1515]
    # A prize is no game, and does not make an unrated player a rated one.
    assert (await rounds.state("ada")).games == 0
    unrated = not rounds.system.rated(rounds.system.initial())
    assert second.players[0].change == (0 if unrated else 50)


@every_system
async def test_a_void_takes_back_a_match_that_was_the_last(rounds: Rounds) -> None:
    # Given a match that is taken back
    await establish(rounds, "ada", "bob")
    before = [await rounds.state(name) for name in ("ada", "bob")]
    await rounds.play("m", ("ada", "bob"), length=5)
    void = {"type": "match-voided", "match_id": "m", "players": ["ada", "bob"], "why": "test"}
    await rounds.send({**void, "finished_at": now_ms()})
    await rounds.rate()
    assert await rounds.dead() == []
    after = [await rounds.state(name) for name in ("ada", "bob")]
    # Then rating, games and window are as before, and so is all else that can be undone.
    for old, new in zip(before, after, strict=True):
        assert new.rating == pytest.approx(old.rating) and new.games == 0
        if rounds.system.name in ("fibs", "backgammon"):
            assert new.extra == old.extra
        if rounds.system.name == "glicko-periods":
            assert held_games(new) == 0
    assert await rounds.redis.zcard(rounds.keys.games("ada")) == 0
    # RDs and volatility are not given back: what later games did with them cannot be told apart.
    if isinstance(rounds.system, Glicko2) or rounds.system.name == "glicko":
        assert after[0].extra[0] < before[0].extra[0]


def held_games(state: State) -> float:
    return state.extra[2]


async def test_a_game_of_a_closed_glicko_period_cannot_be_taken_back(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, GlickoPeriods(period_days=1))
    at = now_ms() - 3 * DAY
    await rounds.play("m", ("ada", "bob"), at=at)
    await rounds.rate()
    await rounds.close()
    void = {"type": "match-voided", "match_id": "m", "players": ["ada", "bob"], "why": "test"}
    await rounds.send({**void, "finished_at": now_ms()})
    await rounds.rate()
    ((reason, detail),) = await rounds.dead()
    assert reason == "invalid" and "a game of a closed rating period cannot be taken out" in detail


async def test_of_a_closed_fide_month_the_gain_is_taken_back_on_the_next_list(
    redis: Redis, ladder: str
) -> None:
    rounds = Rounds(redis, ladder, Fide(k=20))
    await rounds.play("m", ("ada", "bob"), at=month_start(1) - DAY)
    await rounds.rate()
    await rounds.close()
    assert (await rounds.state("ada")).rating == 1510
    void = {"type": "match-voided", "match_id": "m", "players": ["ada", "bob"], "why": "test"}
    await rounds.send({**void, "finished_at": now_ms()})
    await rounds.rate()
    assert (await rounds.state("ada")).rating == 1510
    assert len(await rounds.close(early=True)) == 2
    assert (await rounds.state("ada")).rating == 1500


# Random traffic.


async def traffic(rounds: Rounds, seed: int, count: int = 150) -> None:
    """62 days of everything that can come, late games included, over before this month began."""
    dice = random.Random(seed)
    players = [f"p{number}" for number in range(6)]
    if not rounds.system.rated(rounds.system.initial()):
        await establish(rounds, *players[:3])
    start = month_start(3)
    played: list[tuple[str, list[str]]] = []
    for number in range(count):
        came = start + number * 10 * HOUR
        at = came - dice.choice([0, 0, HOUR, 3 * DAY])
        pair = dice.sample(players, 2)
        if dice.random() < 0.06:
            prize = {
                "type": "tournament-finished",
                "tournament_id": f"t{number}",
                "public": dice.random() < 0.7,
            }
            await rounds.send_at(came, {**prize, "podium": pair, "finished_at": at})
        elif dice.random() < 0.06 and played:
            match_id, names = dice.choice(played)
            void = {"type": "match-voided", "match_id": match_id, "players": names, "why": "test"}
            await rounds.send_at(came, {**void, "finished_at": at})
        else:
            score = dice.choice([1.0, 0.0, 0.5] if rounds.system.draws else [1.0, 0.0])
            other = {"cube": dice.choice([1, 2, 64]), "length": dice.choice([1, 5, 7])}
            mode = dice.choice(["ranked"] * 9 + ["boosted"])
            await rounds.play(f"m{number}", (pair[0], pair[1]), score, at=at, came=came, mode=mode, **other)
            played.append((f"m{number}", pair))
        if dice.random() < 0.3:
            await rounds.rate()
        if rounds.system.period_grace is not None and dice.random() < 0.2:
            await rounds.close(until=came - rounds.system.period_grace)
    # The last one is taken back while its period is open.
    await rounds.play("last", ("p0", "p1"), at=came, length=5)
    void = {"type": "match-voided", "match_id": "last", "players": ["p0", "p1"], "why": "test"}
    await rounds.send_at(came, {**void, "finished_at": came})
    await rounds.rate()


@every_system
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_event_comes_out_again_and_the_ledger_rated_again_is_what_is_stored(
    rounds: Rounds, seed: int
) -> None:
    await traffic(rounds, seed)
    events = await rounds.events()
    assert {event.cause for event in events} >= {Cause.MATCH, Cause.PRIZE, Cause.VOID}
    assert (Cause.PERIOD in {event.cause for event in events}) == (rounds.system.period_grace is not None)
    for event in events:
        check(rounds.system, event)
    # The stored states are those of a replay in memory.
    reader, records = LedgerReader(), list[HistoryRecord]()
    for event in events:
        records += reader.read(event)
    replay = Simulation(
        rounds.system, voided=[record.match_id for record in records if isinstance(record, Void)]
    )
    for name in ("p0", "p1", "p2"):
        if not rounds.system.rated(rounds.system.initial()):
            replay.states[name] = at_rest(rounds.system)
    for record in records:
        replay.feed(record)
    for name in replay.states:
        assert replay.state(name) == await rounds.state(name), name
    # The leaderboard has whom it should have, with the very number that is stored.
    listed = {
        name: state.rating for name, state in replay.states.items() if rounds.system.on_leaderboard(state)
    }
    assert await rounds.listed() == listed
    assert all(reason == "invalid" for reason, _ in await rounds.dead())


def check(system: RatingSystem, event: RatingUpdated) -> None:
    """An event alone gives its own figures."""
    assert all(part.after == pytest.approx(part.before + part.change) for part in event.players)
    if event.cause is Cause.MATCH:
        outcome = system.recompute(event)
        assert outcome.rules == event.rules and outcome.coefficient == event.coefficient
        for part, side in zip(event.players, outcome.sides, strict=True):
            told = (part.change, part.after, part.expected, part.k, part.figures)
            assert told == (side.change, side.rating, side.expected, side.k, dict(side.figures))
        assert all(step.formula and step.result for step in system.explain(event))
    elif event.cause is Cause.PERIOD:
        (part,) = event.players
        side = system.recompute_close(part)
        assert (part.change, part.after, part.k, part.figures) == (
            side.change,
            side.rating,
            side.k,
            dict(side.figures),
        )
        assert list(system.explain(event))


# Decimals.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("system", [Fibs(), Glicko(), GlickoPeriods(), Glicko2(), Fide()], ids=name_of)
async def test_states_survive_redis_to_the_last_bit(rounds: Rounds, seed: int) -> None:
    # Given 60 random states, of every size that a float has
    dice = random.Random(seed)
    whole = rounds.system.integer_ratings

    def value() -> float:
        if whole:
            return float(dice.randint(-(2**53), 2**53))
        scale = 10.0 ** dice.uniform(-300, 300) if dice.random() < 0.3 else 10.0 ** dice.uniform(-6, 6)
        return float(dice.choice([-1, 1]) * dice.random() * scale)

    states = {}
    for number in range(60):
        rating = dice.randint(-(2**53), 2**53) if whole else value()
        extra = tuple(value() for _ in rounds.system.state_fields)
        states[f"p{number}"] = State(rating, dice.randint(0, 10**9), now_ms() - dice.randint(0, 10**9), extra)
    # When they are written by a commit, as the end of a period is
    commits = [
        Commit(
            "closed",
            InboxEntry("", 0, (name,)),
            events=[b"{}"],
            changes=[StateChange(0, 1, state, listed=True, tidy=False, closes_at="")],
        )
        for name, state in states.items()
    ]
    assert await rounds.store.commit(commits, now_ms()) == [1] * 60
    # Then they are read as they were, and stand so on the leaderboard.
    read = await rounds.store.read_players(list(states))
    assert {name: player.state for name, player in read.items()} == states
    assert await rounds.listed() == {name: float(state.rating) for name, state in states.items()}


# What time does.


@pytest.mark.parametrize("system", [Glicko(period_days=1), Glicko2()], ids=name_of)
async def test_deviations_grow_with_idle_time(rounds: Rounds) -> None:
    at = now_ms() - 60 * DAY
    for number in range(40):
        await rounds.play(f"m{number}", ("ada", "bob"), float(number % 2), at=at + number, came=at + number)
    await rounds.play("later", ("ada", "bob"), at=at + 50 * DAY, came=at + 50 * DAY)
    await rounds.rate()
    part = (await rounds.events())[-1].players[0]
    assert part.figures["rd"] > part.figures["rd_before"] + 1
    previous = (await rounds.events())[-2].players[0]
    assert part.figures["rd_before"] == previous.figures["rd_after"]
    assert part.figures["rd"] == rounds.system.rd_at(  # type: ignore[attr-defined]  # both have it
        State(
            part.before, 40, at + 39, (part.figures["rd_before"], part.figures.get("volatility_before", 0.0))
        ),
        at + 50 * DAY,
    )


async def test_glicko_periods_grow_deviations_by_whole_periods(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, GlickoPeriods(period_days=1))
    start = now_ms() // DAY * DAY - 30 * DAY
    for day in (0, 1, 20):
        await rounds.play(f"m{day}", ("ada", "bob"), at=start + day * DAY, came=start + day * DAY)
    await rounds.rate()
    held = [event.players[0].figures for event in await rounds.events() if event.cause is Cause.MATCH]
    assert held[1]["rd"] ** 2 == pytest.approx(held[1]["rd_before"] ** 2 + rounds.system.c**2)  # type: ignore[attr-defined]
    grown = min(held[2]["rd_before"] ** 2 + 19 * rounds.system.c**2, 350**2)  # type: ignore[attr-defined]
    assert held[2]["rd"] ** 2 == pytest.approx(grown)


async def test_glicko_2_lists_players_only_while_their_deviation_is_small(redis: Redis, ladder: str) -> None:
    rounds = Rounds(redis, ladder, Glicko2())
    at = now_ms() - 100 * DAY
    seen = []
    for number in range(60):
        await rounds.play(f"m{number}", ("ada", "bob"), float(number % 2), at=at + number, came=at + number)
        await rounds.rate()
        rd = (await rounds.state("ada")).extra[0]
        assert ("ada" in await rounds.listed()) == (rd <= 75)
        seen.append((rd, rounds.system.provisional(await rounds.state("ada"))))  # type: ignore[attr-defined]
    assert seen[0][1] and not seen[-1][1] and seen[-1][0] <= 75
    assert all(provisional == (rd >= 110) for rd, provisional in seen)
    # After a long break the next game takes the player off the board.
    await rounds.play("later", ("ada", "bob"), at=now_ms() - 1000)
    await rounds.rate()
    assert (await rounds.state("ada")).extra[0] > 75 and "ada" not in await rounds.listed()


async def test_an_unrated_chess_player_is_not_listed_and_falls_off_below_the_floor(
    redis: Redis, ladder: str
) -> None:
    rounds = Rounds(redis, ladder, Fide(start=1400, k=40))
    await rounds.play("m", ("ada", "bob"), at=month_start(1) - DAY)
    await rounds.rate()
    assert set(await rounds.listed()) == {"ada", "bob"}
    await rounds.close()
    assert (await rounds.state("bob")).rating == 0
    assert set(await rounds.listed()) == {"ada"}
