"""Glicko-2: the paper's example, Lichess's constants and figures, idle time, and its laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Game, Glicko2, Outcome, RatingSystem, State
from match_ratings_worker.rating.glicko2 import Rated, expected_score, rate_period, rd_after_idle
from match_ratings_worker.rating.glicko_deviation import Opponent
from match_ratings_worker.time_units import DAY_MS

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]

AT = 1_796_000_000_000
PAPER = [Opponent(1400, 30, 1), Opponent(1550, 100, 0), Opponent(1700, 300, 0)]

states = st.builds(
    lambda rating, rd, volatility, days: State(
        rating, 9, AT - int(days * DAY_MS) if days is not None else 0, (rd, volatility)
    ),
    st.floats(400, 4000),
    st.floats(45, 500),
    st.floats(0.01, 0.1),
    st.one_of(st.none(), st.floats(-20, 4000)),
)
SCORES = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])


def player(rating: float, rd: float, volatility: float = 0.06, last_game: int = 0) -> State:
    return State(rating, last_game=last_game, extra=(rd, volatility))


def test_the_papers_example(vectors: Vectors) -> None:
    rating, rd, volatility, _, _ = vectors("glicko")["glicko2_paper_tau0.5"]
    after = rate_period(Rated(1500, 200, 0.06), PAPER, tau=0.5)
    assert after.rating == pytest.approx(rating, abs=1e-6)
    assert after.rd == pytest.approx(rd, abs=1e-6)
    assert after.volatility == pytest.approx(volatility, abs=1e-9)
    assert (round(after.rating, 2), round(after.rd, 2), round(after.volatility, 8)) == (
        1464.05, 151.52, 0.05999598
    )  # fmt: skip


def test_a_period_without_games_only_grows_rd() -> None:
    idle = rate_period(Rated(1500, 200, 0.06), [], tau=0.5)
    assert (idle.rating, idle.volatility) == (1500, 0.06)
    assert round(idle.rd, 5) == 200.27142 == round(rd_after_idle(200, 0.06, 1), 5)


@pytest.mark.parametrize(
    ("opponent", "rd", "chance"), [(1400, 30, 0.639), (1550, 100, 0.432), (1700, 300, 0.303)]
)
def test_the_papers_expected_scores(opponent: float, rd: float, chance: float) -> None:
    assert expected_score(1500, opponent, rd) == pytest.approx(chance, abs=5e-4)


def test_lichess_figures(vectors: Vectors) -> None:
    for name, case in vectors("glicko")["lichess_tau0.75_elapsed0"].items():
        score = float(name.rsplit(" ", 1)[1])
        white, black = (player(*case[f"{side}_before"]) for side in ("white", "black"))
        outcome = Glicko2().rate(white, black, Game(AT, (score, 1 - score)))
        for side, key in zip(outcome.sides, ("white_after", "black_after"), strict=True):
            assert (side.rating, *side.extra) == pytest.approx(case[key], abs=1e-9)


def test_the_defaults_are_lichess_constants() -> None:
    system = Glicko2()
    assert system.initial() == State(1500.0, extra=(500.0, 0.09))
    assert (system.tau, system.periods_per_day, system.max_change) == (0.75, 0.21436, 700)
    assert (system.min_rating, system.max_rating, system.min_rd, system.max_rd) == (400, 4000, 45, 500)
    assert (system.max_volatility, system.provisional_rd, system.listed_rd) == (0.1, 110, 75)


def test_rd_grows_with_the_fractional_time_since_the_last_game() -> None:
    # Given a last game 10 days ago: 2.1436 periods
    state = player(1500, 60, 0.06, AT - 10 * DAY_MS)
    expected = math.sqrt(60**2 + 2.1436 * (0.06 * 173.7178) ** 2)
    assert Glicko2().rd_at(state, AT) == pytest.approx(expected)
    # When a game is rated, then from the RD so rd_after_idle, for both players.
    outcome = Glicko2().rate(state, state, Game(AT, (1, 0)))
    after = rate_period(Rated(1500, expected, 0.06), [Opponent(1500, expected, 1)], tau=0.75, elapsed=0)
    assert outcome.sides[0].rating == pytest.approx(after.rating)
    assert outcome.sides[0].extra == pytest.approx((after.rd, after.volatility))


def test_a_late_game_and_a_first_game_grow_nothing() -> None:
    assert Glicko2().rd_at(player(1500, 60, 0.06, AT), AT - DAY_MS) == 60
    assert Glicko2().rd_at(player(1500, 60, 0.06, 0), AT) == 60


def test_rd_rating_and_volatility_stay_within_their_bounds() -> None:
    system = Glicko2()
    assert system.rd_at(player(1500, 400, 0.1, AT - 100_000 * DAY_MS), AT) == 500
    low = system.rate(player(400, 45), player(400, 45), Game(AT, (0, 1))).sides[0]
    assert (low.rating, low.change, low.extra[0]) == (400, 0, 45)
    high = system.rate(player(3999.5, 45), player(3999.5, 45), Game(AT, (1, 0))).sides[0]
    assert (high.rating, high.change) == (4000, 0.5)
    assert system.rate(player(1500, 500, 0.2), player(1500, 500), Game(AT, (1, 0))).sides[0].extra[1] == 0.1


def test_a_game_changes_at_most_700_points() -> None:
    outcome = Glicko2().rate(player(600, 500, 0.1), player(3500, 500, 0.1), Game(AT, (1, 0)))
    assert [side.change for side in outcome.sides] == [700, -700]


def test_provisional_and_listed_follow_the_rd() -> None:
    system = Glicko2()
    assert [system.provisional(player(1500, rd)) for rd in (109.9, 110)] == [False, True]
    assert [system.on_leaderboard(player(1500, rd)) for rd in (75, 75.1)] == [True, False]
    assert not system.on_leaderboard(system.initial())
    assert Glicko2(listed_rd=500).on_leaderboard(system.initial())


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"tau": 0}, "tau"),
        ({"start": 300}, "start: 300 is not allowed with these bounds; 400 to 4000 is"),
        ({"start_rd": 600}, "start_rd: 600"),
        ({"start_volatility": 0.5}, "start_volatility: 0.5"),
        ({"periods_per_day": -1}, "periods_per_day"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, float], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Glicko2.model_validate(settings)


opponents = st.builds(Opponent, st.floats(-1e5, 1e5), st.floats(1, 5000), st.sampled_from([0.0, 0.5, 1.0]))


@given(
    st.builds(Rated, st.floats(-1e5, 1e5), st.floats(1, 5000), st.floats(1e-6, 1)),
    st.lists(opponents, max_size=20),
    st.floats(0.01, 10),
    st.floats(0, 1000),
)
def test_the_volatility_is_found_whatever_the_figures(
    rated: Rated, games: list[Opponent], tau: float, elapsed: float
) -> None:
    after = rate_period(rated, games, tau=tau, elapsed=elapsed)
    assert all(math.isfinite(value) for value in after)
    assert 0 < after.rd <= rd_after_idle(rated.rd, after.volatility, elapsed) * (1 + 1e-12)
    assert after.volatility > 0


@given(states, states, SCORES)
def test_a_win_gains_a_loss_costs_and_rd_never_grows_by_a_game(
    first: State, second: State, scores: tuple[float, float]
) -> None:
    outcome = Glicko2().rate(first, second, Game(AT, scores))
    for state, side, score in zip((first, second), outcome.sides, scores, strict=True):
        assert score == 0.5 or (side.change >= 0) == bool(score) or side.change == 0
        assert side.extra[0] <= Glicko2().rd_at(state, AT) * (1 + 1e-12)
        assert 400 <= side.rating <= 4000


@given(states, states, SCORES)
def test_an_event_alone_gives_the_same_outcome(
    through_json: Travel, first: State, second: State, scores: tuple[float, float]
) -> None:
    # Given decimals of any kind, nothing is lost on the way through JSON or a Redis hash.
    system = Glicko2()
    outcome, event = through_json(system, first, second, Game(AT, scores))
    assert system.recompute(event) == outcome
    for side, part in zip(outcome.sides, event.players, strict=True):
        assert part.after == side.rating == system.parse_rating(repr(side.rating))
        assert tuple(float(repr(value)) for value in side.extra) == side.extra
        assert (part.figures["rd_after"], part.figures["volatility_after"]) == side.extra
    assert all(step.result and step.formula for step in system.explain(event))


def test_the_steps_spell_out_the_formula(through_json: Travel) -> None:
    first = player(1500, 200, 0.06, AT - 10 * DAY_MS)
    _, event = through_json(Glicko2(), first, player(1400, 60), Game(AT, (1, 0)))
    steps = Glicko2().explain(event)
    assert [(step.label, step.formula) for step in steps if step.player == "first"] == [
        ("RD before", "sqrt(200.00^2 + 2.1436 x (0.060000 x 173.7178)^2), 45 to 500"),
        ("g", "1 / sqrt(1 + 3 x (60.00 / 173.7178)^2 / pi^2)"),
        ("expected", "1 / (1 + exp(-0.9823 x (1500.00 - 1400.00) / 173.7178))"),
        ("1/v", "0.9823^2 x 0.6377 x (1 - 0.6377)"),
        ("gain", "0.9823 x (1 - 0.6377)"),
        ("volatility", "from 0.060000: root of f by the Illinois method, tau 0.75, at most 0.1"),
        ("RD after", "173.7178 / sqrt((173.7178 / 200.58)^2 + 0.222949)"),
        ("change", "173.7178 x 1.027719 x +0.355884, within 400 to 4000, at most 700 a game"),
        ("rating", "1500.00 +63.54"),
    ]


@given(states, states, SCORES)
def test_each_steps_formula_gives_its_result(
    through_json: Travel, first: State, second: State, scores: tuple[float, float]
) -> None:
    # Given the formulas as they are printed, with figures of limited length
    _, event = through_json(Glicko2(), first, second, Game(AT, scores))
    names = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "pi": math.pi, "q": math.log(10) / 400}
    for step in Glicko2().explain(event):
        if step.label not in ("volatility", "change", "RD before"):  # these are kept within bounds
            formula = step.formula.partition(",")[0].replace("^", "**").replace(" x ", " * ")
            value = float(step.result)
            # Then each gives the figure printed beside it, unless a bound of RD comes in.
            if step.label != "RD after" or 50 < value < 300:
                assert eval(formula, names) == pytest.approx(value, rel=0.02, abs=0.02)
