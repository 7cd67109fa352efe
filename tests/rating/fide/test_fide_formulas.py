"""FIDE's rules: tables, differences, exactness at ties, K, the 700 rule, performance, settings."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from match_ratings_worker.rating import Fide, Game, Number
from match_ratings_worker.rating.elo import round_div
from match_ratings_worker.rating.fide import (
    SCALE,
    UNCAPPED_FROM,
    capped_difference,
    expected_score,
    k_factor,
    limited_k,
    linear_performance,
    performance,
)
from match_ratings_worker.rating.fide.conversion_tables import expected_hundredths, rating_difference
from tests.support.fide_players import AT, Vectors, accrued, after, ms, player


def published(vectors: Vectors, difference: int) -> Fraction:
    """Table 8.1.2 read independently, as an exact fraction."""
    for row in vectors("fide_tables")["pd"]:
        if row["D_min"] <= abs(difference) and (row["D_max"] is None or abs(difference) <= row["D_max"]):
            return Fraction(str(row["H"] if difference >= 0 else row["L"]))
    raise AssertionError


def half_away(value: Fraction | int) -> int:
    half = Fraction(1, 2)
    return math.floor(value + half) if value >= 0 else math.ceil(value - half)


# Tables and differences.


def test_the_expectation_table_is_the_published_one(vectors: Vectors) -> None:
    for difference in range(-1000, 1001):
        assert Fraction(expected_hundredths(difference), 100) == published(vectors, difference)


def test_the_performance_table_is_the_published_one(vectors: Vectors) -> None:
    table = vectors("fide_tables")["dp"]
    assert len(table) == 101
    for share, difference in table.items():
        assert rating_difference(round(float(share) * 100)) == difference


@pytest.mark.parametrize("share", [-1, 101])
def test_a_share_outside_the_table_is_refused(share: int) -> None:
    with pytest.raises(ValueError, match=f"share: {share} is not allowed"):
        rating_difference(share)


def test_table_and_curve_differ_for_134_of_the_401_differences() -> None:
    curve = [round_div(expected_score(difference, "curve") * 100, SCALE) for difference in range(401)]
    table = [expected_hundredths(difference) for difference in range(401)]
    assert sum(one != other for one, other in zip(curve, table, strict=True)) == 134
    assert (curve[400], table[400]) == (91, 92)


def test_published_changes(vectors: Vectors) -> None:
    for case in vectors("fide")["cases"]:
        chance, k, score = expected_score(case["D"], "curve"), case["K"], case["score"]
        assert chance / SCALE == pytest.approx(case["E_logistic"], abs=1e-9)
        assert k * (score - chance / SCALE) == pytest.approx(case["delta_logistic"], abs=1e-6)
        assert round_div(k * (int(score * SCALE) - chance), SCALE) == case["rounded_logistic"]
        assert expected_hundredths(case["D"]) == round(100 * case["PD"])
        assert (
            round_div(k * (int(score * 100) - expected_hundredths(case["D"])), 100) == case["rounded_table"]
        )


def test_published_changes_come_out_of_the_system(vectors: Vectors) -> None:
    for case in vectors("fide")["cases"]:
        if "uncapped" in case["name"]:
            continue
        score = case["score"]
        for expectation, key in (("table", "rounded_table"), ("curve", "rounded_logistic")):
            system = Fide.model_validate({"period": "game", "expectation": expectation, "k": case["K"]})
            outcome = system.rate(player(case["own"]), player(case["opp"]), Game(AT, (score, 1 - score)))
            assert outcome.sides[0].change == case[key]
            assert outcome.sides[0].figures["difference"] == case["D"]


@pytest.mark.parametrize(
    ("own", "opponent", "at", "counted"),
    [
        (1900, 1500, "2026-01-01", 400),
        (1901, 1500, "2026-01-01", 400),
        (1500, 1901, "2026-01-01", -400),
        (2813, 2400, "2026-01-01", 413),
        (2400, 2813, "2026-01-01", -400),  # judged for each player separately
        (2650, 2200, "2026-01-01", 450),
        (2649, 2200, "2026-01-01", 400),
        (2700, 3200, "2026-01-01", -500),
        (2813, 2400, "2025-10-01", 413),
        (2813, 2400, "2025-09-30T23:59:59.999", 400),  # by the game's date
    ],
)
def test_differences_over_400_count_as_400_but_for_players_from_2650(
    own: int, opponent: int, at: str, counted: int
) -> None:
    assert capped_difference(own, opponent, ms(at)) == counted


def test_the_rules_version_changes_with_the_exception() -> None:
    assert Fide().rules_at(UNCAPPED_FROM - 1) == "2024-03"
    assert Fide().rules_at(UNCAPPED_FROM) == "2025-10"


# Exactness.


@pytest.mark.parametrize("k", [10, 20, 40])
def test_every_single_game_is_exact_also_at_ties(vectors: Vectors, k: int) -> None:
    # Given each of the 401 differences, either way, and each score
    by_game, by_month = Fide(period="game", k=k), Fide(k=k, floor=1)
    ties = set()
    for difference in range(-400, 401):
        for score in (0.0, 0.5, 1.0):
            exact = k * (Fraction(score) - published(vectors, difference))
            if exact.denominator == 2:
                ties.add((expected_hundredths(difference), score))
            own, other, game = player(2000 + difference), player(2000), Game(AT, (score, 1 - score))
            # Then rounding after the game and closing a month with only this game agree with fractions.
            assert by_game.rate(own, other, game).sides[0].change == half_away(exact)
            held = after(own, by_month.rate(own, other, game).sides[0])
            assert by_month.close(held).change == half_away(exact)
    assert len(ties) == (24 if k == 10 else 0)


@pytest.mark.parametrize("k", [10, 20, 40])
def test_the_curve_is_rounded_as_with_50_digits(k: int) -> None:
    system = Fide(period="game", expectation="curve", k=k)
    with localcontext(prec=50):
        for difference in range(-400, 401):
            chance = 1 / (1 + Decimal(10) ** (Decimal(-difference) / 400))
            for score in (0.0, 0.5, 1.0):
                change = (k * (Decimal(score) - chance)).quantize(Decimal(1), ROUND_HALF_UP)
                game = Game(AT, (score, 1 - score))
                assert system.rate(player(2000 + difference), player(2000), game).sides[0].change == change


@given(
    st.lists(st.tuples(st.integers(1000, 2400), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=60)
)
def test_a_whole_period_is_exact_and_rounded_once(vectors: Vectors, games: list[tuple[int, float]]) -> None:
    # Given a month of games
    state = accrued(Fide(k=10, floor=1), player(1700), games)
    # When it closes
    side = Fide(k=10, floor=1).close(state)
    # Then the change is the exact sum times K, rounded once.
    gain = sum(Fraction(score) - published(vectors, _capped(1700 - opponent)) for opponent, score in games)
    assert side.change == half_away(10 * gain)
    assert side.k == 10


def _capped(difference: int) -> int:
    return max(-400, min(400, difference))


@given(
    st.lists(
        st.tuples(st.integers(1000, 2400), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=20
    ).flatmap(lambda games: st.tuples(st.just(games), st.permutations(games))),
    st.sampled_from(["table", "curve"]),
)
def test_the_order_of_a_periods_games_does_not_matter(
    orders: tuple[list[tuple[int, float]], list[tuple[int, float]]], expectation: Any
) -> None:
    system = Fide(expectation=expectation)
    one, other = (accrued(system, player(1700), games) for games in orders)
    assert one == other
    assert system.close(one) == system.close(other)


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_division_rounds_half_away_exactly(numerator: int, denominator: int) -> None:
    assert round_div(numerator, denominator) == half_away(Fraction(numerator, denominator))


# K.


@pytest.mark.parametrize(
    ("figures", "k"),
    [
        ({}, 20),
        ({"peak": 2399}, 20),
        ({"peak": 2400}, 10),
        ({"peak": 2400, "games": 3}, 10),  # 10 comes before new and young
        ({"peak": 2400, "birth_year": 2015}, 10),
        ({"games": 29}, 40),
        ({"games": 30}, 20),
        ({"games": 0, "peak": 2350}, 40),
        ({"birth_year": 2008}, 40),  # 18 in 2026: until the end of the year
        ({"birth_year": 2007}, 20),
        ({"birth_year": 2008, "peak": 2299}, 40),
        ({"birth_year": 2008, "peak": 2300}, 20),
        ({"birth_year": 2008, "peak": 2300, "games": 10}, 40),  # still new
    ],
)
def test_k_by_the_rules(figures: dict[str, int], k: int) -> None:
    given_figures: dict[str, Any] = {"peak": 2000, "games": 100, "birth_year": None, "year": 2026, **figures}
    assert k_factor(**given_figures).k == k


def test_the_700_rule(vectors: Vectors) -> None:
    for row in vectors("fide")["rule_700"]:
        assert limited_k(row["K"], row["games"]) == row["K_used"]


@given(st.integers(1, 700), st.integers(1, 2000))
def test_the_700_rule_gives_the_largest_k_that_fits(k: int, games: int) -> None:
    used = limited_k(k, games)
    assert used * games <= 700 or used == k
    assert used == k or (used + 1) * games > 700


def test_k_10_stays_after_the_rating_has_fallen() -> None:
    # Given a player who once reached 2400 and stands at 2300
    # Then K is 10, game by game and at the month's end.
    state = player(2300, peak=2400)
    by_game = Fide(period="game").rate(state, player(2300), Game(AT, (1, 0)))
    assert [side.k for side in by_game.sides] == [10, 20]
    assert Fide().close(accrued(Fide(), state, [(2300, 1)])).k == 10


def test_reaching_2400_is_remembered() -> None:
    # Given a player at 2395 with K 20
    system = Fide(period="game")
    side = system.rate(player(2395), player(2395), Game(AT, (1, 0))).sides[0]
    assert (side.k, side.rating, side.extra[0]) == (20, 2405, 2405)
    # When the next game is lost, then K is 10.
    lost = system.rate(after(player(2395), side), player(2405), Game(AT, (0, 1))).sides[0]
    assert (lost.k, lost.rating, lost.extra[0]) == (10, 2400, 2405)


def test_a_new_player_is_new_until_games_before_the_period_make_30() -> None:
    # Given 29 games before the month, and 5 in it: new for all of it; with 30 before, no longer.
    games = [(1500, 1.0)] * 5
    assert Fide().close(accrued(Fide(), player(1500, games=29), games)).k == 40
    assert Fide().close(accrued(Fide(), player(1500, games=30), games)).k == 20


def test_a_youth_is_judged_by_the_year_of_the_period() -> None:
    # Given a player born in 2008 whose December games are closed in January
    december = accrued(Fide(), player(1500, birth_year=2008), [(1500, 1)], ms("2026-12-31T23:59:59"))
    january = accrued(Fide(), player(1500, birth_year=2008), [(1500, 1)], ms("2027-01-01"))
    assert (Fide().close(december).k, Fide().close(january).k) == (40, 20)


def test_a_given_k_overrides_the_rules_but_not_the_700_rule() -> None:
    state = player(2500, games=0, peak=2500, birth_year=2015)
    assert Fide(k=32).close(accrued(Fide(k=32), state, [(2500, 1)])).k == 32
    assert Fide(k=32).close(accrued(Fide(k=32), state, [(2500, 1)] * 50)).k == 14


# Performance.


def test_published_performance(vectors: Vectors) -> None:
    for case in vectors("fide")["performance"]:
        result = performance(case["opponents"], case["score"])
        assert (result.rating, result.difference) == (case["performance"], case["dp"])


@pytest.mark.parametrize(
    ("opponents", "score", "table", "linear"),
    [
        ([1500], 0.5, 1500, 1500),
        ([1400, 1600, 1550, 1450], 3, 1693, 1700),
        ([1500, 1501], 1, 1501, 1501),  # 1500.5, half away from zero
        ([1500] * 8, 5, 1595, 1600),  # 0.625 -> 0.63
        ([1500] * 8, 3, 1413, 1400),  # 0.375 -> 0.38
    ],
)
def test_performance_by_table_and_linear(opponents: list[int], score: float, table: int, linear: int) -> None:
    assert performance(opponents, score).rating == table
    assert linear_performance(opponents, score).rating == linear


@pytest.mark.parametrize(("score", "percent"), [(0, "0 %"), (2, "100 %")])
def test_the_linear_performance_breaks_at_0_and_100_percent(score: int, percent: str) -> None:
    with pytest.raises(ValueError, match=f"is {percent}, where the linear approximation breaks"):
        linear_performance([1500, 1600], score)
    assert performance([1500, 1600], score).rating == 1550 + (800 if score else -800)


@pytest.mark.parametrize(("opponents", "score"), [([], 0), ([1500], 1.5), ([1500], -0.5), ([1500], 0.25)])
def test_impossible_scores_are_refused(opponents: list[int], score: float) -> None:
    for calculate in (performance, linear_performance):
        with pytest.raises(ValueError, match=r"opponents: none are given|score: .* is not allowed"):
            calculate(opponents, score)


# Settings.


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"expectation": "linear"}, "expectation"),
        ({"period": "week"}, "period"),
        ({"k": 0}, "k"),
        ({"k": 701}, "k"),
        ({"floor": 0}, "floor"),
        ({"period": "game", "start": 0}, "start: 0"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Number | str], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Fide.model_validate(settings)
