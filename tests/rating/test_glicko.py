"""Glicko: the paper's example, RD growing with idle time, and rating periods closed game by game."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating import (
    Game,
    Glicko,
    GlickoPeriods,
    InvalidGame,
    Outcome,
    RatingSystem,
    Side,
    State,
)
from match_ratings_worker.rating.glicko import (
    Q,
    accumulate,
    expected_score,
    g,
    posterior,
    rate_period,
    rd_after_idle,
)
from match_ratings_worker.rating.glicko_deviation import Opponent
from match_ratings_worker.rating.glicko_periods import GlickoPeriodState
from match_ratings_worker.time_units import DAY_MS

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]

AT = 1_796_000_000_000
PAPER = [Opponent(1400, 30, 1), Opponent(1550, 100, 0), Opponent(1700, 300, 0)]

states = st.builds(
    lambda rating, rd, days: State(rating, 9, AT - int(days * DAY_MS) if days is not None else 0, (rd,)),
    st.floats(-500, 4000),
    st.floats(30, 350),
    st.one_of(st.none(), st.floats(-20, 4000)),
)
SCORES = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])


def player(rating: float, rd: float, last_game: int = 0) -> State:
    return State(rating, last_game=last_game, extra=(rd,))


def after(state: State, side: Side, at: int = AT) -> State:
    """The state as the worker keeps it after a game or a closing."""
    return State(side.rating, state.games + 1, max(state.last_game, at), side.extra)


def test_the_papers_example(vectors: Vectors) -> None:
    rating, rd, d = vectors("glicko")["glicko1_paper"]
    assert rate_period(1500, 200, PAPER) == pytest.approx((rating, rd), abs=1e-9)
    information, _ = accumulate(1500, PAPER)
    assert 1 / math.sqrt(Q * Q * information) == pytest.approx(d, abs=1e-9)


@pytest.mark.parametrize(("rd", "weight"), [(30, 0.9955), (100, 0.9531), (300, 0.7242)])
def test_the_papers_weights(rd: float, weight: float) -> None:
    assert g(rd) == pytest.approx(weight, abs=5e-5)


@pytest.mark.parametrize(
    ("opponent", "rd", "chance"), [(1400, 30, 0.639), (1550, 100, 0.432), (1700, 300, 0.303)]
)
def test_the_papers_expected_scores(opponent: float, rd: float, chance: float) -> None:
    assert expected_score(1500, opponent, rd) == pytest.approx(chance, abs=5e-4)


def test_c_brings_50_back_to_350_in_100_periods() -> None:
    c = Glicko().c
    assert round(c, 2) == 34.64
    assert rd_after_idle(50, 100, c, 350) == pytest.approx(350)
    assert rd_after_idle(50, 101, c, 350) == 350


def test_a_period_without_games_changes_nothing_but_the_rd() -> None:
    assert rate_period(1500, 200, []) == pytest.approx((1500, 200))


def test_rd_grows_with_the_idle_time_in_fractional_periods() -> None:
    # Given a last game 45 days ago, one and a half periods of 30 days
    state = player(1500, 50, AT - 45 * DAY_MS)
    assert Glicko().rd_at(state, AT) == pytest.approx(math.sqrt(2500 + 1.5 * 1200))
    # When a game is rated, both RDs count as grown.
    side = Glicko().rate(state, player(1500, 50, AT), Game(AT, (1, 0))).sides[0]
    rating, rd = rate_period(1500, math.sqrt(4300), [Opponent(1500, 50, 1)])
    assert (side.rating, side.extra[0]) == pytest.approx((rating, rd))


def test_a_late_game_and_a_first_game_grow_nothing() -> None:
    assert Glicko().rd_at(player(1500, 50, AT), AT - DAY_MS) == pytest.approx(50)
    assert Glicko().rd_at(player(1500, 50, 0), AT) == pytest.approx(50)


def test_rd_stays_within_its_bounds() -> None:
    assert Glicko().rd_at(player(1500, 340, AT - 10_000 * DAY_MS), AT) == 350
    tight = Glicko(min_rd=60)
    assert tight.rate(player(1500, 60, AT), player(1500, 60, AT), Game(AT, (1, 0))).sides[0].extra == (60,)


def test_settings_change_the_growth() -> None:
    state = player(1500, 50, AT - 45 * DAY_MS)
    assert Glicko(period_days=45, c=10).rd_at(state, AT) == pytest.approx(math.sqrt(2600))


def test_provisional_and_listed_follow_the_rd() -> None:
    system = Glicko(listed_rd=100)
    assert [system.provisional(player(1500, rd)) for rd in (109.9, 110)] == [False, True]
    assert [system.on_leaderboard(player(1500, rd)) for rd in (100, 100.1)] == [True, False]
    assert Glicko().on_leaderboard(Glicko().initial())


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"c": -1}, "c"),
        ({"period_days": 0}, "period_days"),
        ({"start_rd": 20}, "start_rd: 20 is not allowed"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, float], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Glicko.model_validate(settings)


@given(states, states, SCORES)
def test_a_win_gains_a_loss_costs_and_rd_never_grows_by_a_game(
    first: State, second: State, scores: tuple[float, float]
) -> None:
    outcome = Glicko().rate(first, second, Game(AT, scores))
    for state, side, score in zip((first, second), outcome.sides, scores, strict=True):
        assert score == 0.5 or (side.change >= 0) == bool(score) or side.change == 0
        assert side.extra[0] <= Glicko().rd_at(state, AT)


@given(states, states, SCORES)
def test_an_event_alone_gives_the_same_outcome(
    through_json: Travel, first: State, second: State, scores: tuple[float, float]
) -> None:
    # Given decimals of any kind, nothing is lost on the way through JSON or a Redis hash.
    system = Glicko()
    outcome, event = through_json(system, first, second, Game(AT, scores))
    assert system.recompute(event) == outcome
    for side in outcome.sides:
        assert system.parse_rating(repr(side.rating)) == side.rating
        assert float(repr(side.extra[0])) == side.extra[0]
    assert all(step.result and step.formula for step in system.explain(event))


def test_the_steps_spell_out_the_formula(through_json: Travel) -> None:
    first, second = player(1500, 200, AT), player(1400, 30, AT)
    _, event = through_json(Glicko(), first, second, Game(AT, (1, 0)))
    steps = Glicko().explain(event)
    assert [(step.label, step.formula, step.result) for step in steps if step.player == "first"] == [
        ("RD before", "sqrt(200.00^2 + 34.64^2 x 0.0000), 30 to 350", "200.00"),
        ("g", "1 / sqrt(1 + 3 x q^2 x 30.00^2 / pi^2), q = ln(10) / 400", "0.9955"),
        ("expected", "1 / (1 + 10^(-0.9955 x (1500.00 - 1400.00) / 400))", "0.6395"),
        ("information", "0.9955^2 x 0.6395 x (1 - 0.6395)", "0.228478"),
        ("gain", "0.9955 x (1 - 0.6395)", "+0.358909"),
        ("RD after", "1 / sqrt(1 / 200.00^2 + q^2 x 0.228478)", "175.22"),
        ("change", "q x 175.22^2 x +0.358909", "+63.43"),
        ("rating", "1500.00 +63.43", "1563.43"),
    ]


@given(states, states, SCORES)
def test_each_steps_formula_gives_its_result(
    through_json: Travel, first: State, second: State, scores: tuple[float, float]
) -> None:
    # Given the formulas as they are printed, with figures of limited length
    _, event = through_json(Glicko(), first, second, Game(AT, scores))
    names = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "pi": math.pi, "q": math.log(10) / 400}
    for step in Glicko().explain(event):
        if step.label not in ("volatility", "change", "RD before"):  # these are kept within bounds
            formula = step.formula.partition(",")[0].replace("^", "**").replace(" x ", " * ")
            value = float(step.result)
            # Then each gives the figure printed beside it, unless a bound of RD comes in.
            if step.label != "RD after" or 50 < value < 300:
                assert eval(formula, names) == pytest.approx(value, rel=0.02, abs=0.02)


# Rating periods.

PERIODS = GlickoPeriods()
PERIOD_MS = 30 * DAY_MS
START = AT // PERIOD_MS * PERIOD_MS


def in_periods(rating: float, rd: float) -> State:
    return State(rating, extra=tuple(GlickoPeriodState(rd)))


def test_the_papers_example_added_one_game_at_a_time(vectors: Vectors) -> None:
    # Given the paper's three games in one period
    state = in_periods(1500, 200)
    for opponent, rd, score in PAPER:
        game = Game(START, (score, 1 - score))
        side = PERIODS.rate(state, in_periods(opponent, rd), game).sides[0]
        assert (side.change, side.rating) == (0, 1500)
        state = after(state, side)
    # When the period ends
    assert PERIODS.closes_at(state) == START + PERIOD_MS
    closed = PERIODS.close(state)
    # Then it is the paper's result, and closing again changes nothing.
    rating, rd, _ = vectors("glicko")["glicko1_paper"]
    assert (closed.rating, closed.extra[0]) == pytest.approx((rating, rd))
    assert PERIODS.closes_at(after(state, closed)) is None
    assert PERIODS.close(after(state, closed)).change == 0


def test_rd_grows_by_whole_periods_since_the_last_one_with_games() -> None:
    # Given a player whose last period with games is closed
    first = PERIODS.rate(in_periods(1500, 200), in_periods(1500, 200), Game(START, (1, 0))).sides[0]
    state = after(in_periods(1500, 200), first)
    state = after(state, PERIODS.close(state))
    rd = state.extra[0]
    # When the next game is three periods later, then t is 3, as in the paper.
    later = PERIODS.rate(state, in_periods(1500, 200), Game(START + 3 * PERIOD_MS, (1, 0))).sides[0]
    assert later.extra[0] == pytest.approx(rd_after_idle(rd, 3, PERIODS.c, 350))
    # And a late game of the closed period goes into the one after it.
    late = PERIODS.rate(state, in_periods(1500, 200), Game(START, (1, 0))).sides[0]
    assert PERIODS.closes_at(after(state, late)) == START + 2 * PERIOD_MS


def test_the_opponents_rd_counts_as_grown_to_the_periods_start() -> None:
    # Given two players who last played five periods ago
    idle = State(1500.0, extra=tuple(GlickoPeriodState(60.0, float(START // PERIOD_MS - 5))))
    rd = rd_after_idle(60, 5, PERIODS.c, 350)
    # When they play and the period closes
    state = after(idle, PERIODS.rate(idle, idle, Game(AT, (1, 0))).sides[0])
    closed = PERIODS.close(state)
    # Then both RDs were the grown ones.
    assert (closed.rating, closed.extra[0]) == pytest.approx(rate_period(1500, rd, [Opponent(1500, rd, 1)]))


def test_a_preview_shows_the_game_as_its_periods_only_one() -> None:
    outcome = PERIODS.preview(in_periods(1500, 200), in_periods(1400, 30), Game(AT, (1, 0)))
    rating, rd = rate_period(1500, 200, [Opponent(1400, 30, 1)])
    assert (outcome.sides[0].rating, outcome.sides[0].extra[0]) == pytest.approx((rating, rd))


held_states = st.builds(
    lambda rating, rd, period, games, information, gain: State(
        rating, extra=(rd, float(period), float(games), information if games else 0.0, gain if games else 0.0)
    ),
    st.floats(0, 3000),
    st.floats(30, 350),
    st.sampled_from([0, START // PERIOD_MS - 5, START // PERIOD_MS]),
    st.integers(0, 50),
    st.floats(0.001, 12),
    st.floats(-50, 50),
)


@given(held_states, held_states, SCORES)
def test_a_held_games_event_alone_gives_the_same_outcome(
    through_json: Travel, first: State, second: State, scores: tuple[float, float]
) -> None:
    outcome, event = through_json(PERIODS, first, second, Game(AT, scores))
    assert PERIODS.recompute(event) == outcome
    assert all(step.result and step.formula for step in PERIODS.explain(event))


@given(held_states)
def test_a_closings_event_alone_gives_the_same_closing(state: State) -> None:
    side = PERIODS.close(state)
    part = PlayerUpdate(
        player="ada",
        before=state.rating,
        change=side.change,
        after=side.rating,
        sequence=1,
        figures=dict(side.figures),
    )
    part = PlayerUpdate.model_validate_json(part.model_dump_json())
    if not side.figures:
        return
    assert PERIODS.recompute_close(part) == side
    held = GlickoPeriodState.of(state)
    rating, rd = posterior(state.rating, held.rd, held.period_information, held.period_gain)
    assert (side.rating, side.extra[0]) == pytest.approx((rating, max(30, rd)))
    event = RatingUpdated(
        cause=Cause.PERIOD, ladder="chess", system="glicko-periods", rules="1", finished_at=AT, rated_at=AT,
        players=(part,),
    )  # fmt: skip
    assert [step.label for step in PERIODS.explain(event)] == [
        "information", "gain", "RD after", "change", "rating"
    ]  # fmt: skip


def test_a_held_game_can_be_voided_and_one_of_a_closed_period_cannot(through_json: Travel) -> None:
    # Given two games held
    start = in_periods(1500, 200)
    one, voided = through_json(PERIODS, start, in_periods(1400, 30), Game(AT, (1, 0)))
    only = after(start, one.sides[0])
    two = PERIODS.rate(only, in_periods(1550, 100), Game(AT, (0, 1))).sides[0]
    # When the first is voided, the second is left; when the only one is, the player is as before.
    alone = PERIODS.rate(start, in_periods(1550, 100), Game(AT, (0, 1))).sides[0]
    left = PERIODS.void(after(only, two), voided.players[0])
    assert left.extra == pytest.approx(alone.extra)
    assert PERIODS.void(only, voided.players[0]).extra == start.extra
    # When the period is closed, there is a clear answer.
    closed = after(only, PERIODS.close(only))
    with pytest.raises(InvalidGame, match="a game of a closed rating period cannot be taken out"):
        PERIODS.void(closed, voided.players[0])
