"""Expected against actual scores: bins, figures of merit, and a known divisor found again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from match_ratings_worker.evaluation import Prediction, Sample, best_divisor, wilson
from match_ratings_worker.rating import Fibs, Game, Glicko, Glicko2, State
from match_ratings_worker.rating.elo import expected
from tests.support.synthetic_matches import START, predictions


@pytest.mark.parametrize("true", [400, 800, 1200])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_known_divisor_is_found_again(true: int, seed: int) -> None:
    # Given 20,000 results by a known curve, predicted by another
    calibration = Sample(predictions(20_000, true=true, used=800, seed=seed)).calibration()
    assert calibration is not None and calibration.fit is not None
    # Then the fit is near it, and its interval holds it (by these seeds) and is of a useful width.
    fit = calibration.fit
    assert fit.divisor == pytest.approx(true, rel=0.06)
    assert fit.high is not None and fit.low < true < fit.high
    assert fit.high - fit.low < true / 5


def test_the_interval_holds_the_true_divisor_nineteen_times_in_twenty() -> None:
    held = 0
    for seed in range(100):
        sample = predictions(400, true=800, used=800, seed=seed)
        fit = best_divisor([item.gap for item in sample], [item.score for item in sample])
        assert fit is not None
        held += fit.low <= 800 and (fit.high is None or fit.high >= 800)
    assert 88 <= held <= 100


def test_the_right_divisor_predicts_best() -> None:
    merits = []
    for used in (400, 800, 1200):
        calibration = Sample(predictions(20_000, true=800, used=used)).calibration()
        assert calibration is not None
        merits.append((calibration.log_loss, calibration.brier))
    assert merits[1] < merits[0] and merits[1] < merits[2]
    assert merits[1][1] < merits[0][1] and merits[1][1] < merits[2][1]


def test_strong_players_who_win_less_than_the_curve_says_ask_for_a_larger_divisor() -> None:
    # Given favourites by 100 points who win 57.5 % where divisor 400 expects 64 %
    rows = [
        Prediction(START, expected(100, 0, 400), float(number < 575), 100, 100, 9) for number in range(1000)
    ]
    calibration = Sample(rows).calibration()
    assert calibration is not None and calibration.fit is not None
    (only,) = calibration.bins
    assert (only.low, only.high, only.matches) == (100, 150, 1000)
    assert only.expected == pytest.approx(0.640, abs=0.001) and only.actual == 0.575
    assert only.actual_low < 0.575 < only.actual_high < 0.640
    assert calibration.fit.divisor == pytest.approx(100 / math.log10(0.575 / 0.425))


def test_the_underdogs_side_is_turned_round() -> None:
    one = Sample([Prediction(START, 0.36, 0.0, -100, -100, 9)]).calibration()
    two = Sample([Prediction(START, 0.64, 1.0, 100, 100, 9)]).calibration()
    assert one == two


def test_merits_by_hand() -> None:
    rows = [Prediction(START, 0.5, 1.0, 0, 0, 9), Prediction(START, 0.75, 0.0, 100, 100, 9)]
    calibration = Sample(rows).calibration()
    assert calibration is not None
    assert calibration.log_loss == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert calibration.brier == pytest.approx((0.25 + 0.5625) / 2)
    sure = Sample([Prediction(START, 1.0, 0.0, 900, 900, 9)]).calibration()
    assert sure is not None and sure.log_loss == pytest.approx(-math.log(1e-6), rel=1e-6)


def test_the_last_bin_is_open_and_nothing_gives_nothing() -> None:
    rows = [Prediction(START, 0.9, 1.0, gap, gap, 9) for gap in (0, 49.9, 50, 10_000)]
    calibration = Sample(rows).calibration(width=50, most=4)
    assert calibration is not None
    assert [(item.low, item.high, item.matches) for item in calibration.bins] == [
        (0, 50, 2),
        (50, 100, 1),
        (150, None, 1),
    ]
    assert Sample().calibration() is None


@pytest.mark.parametrize(
    ("gaps", "scores"),
    [
        ([], []),
        ([0.0, 0.0], [1.0, 0.0]),  # no gaps
        ([100.0, 50.0], [1.0, 1.0]),  # the stronger always win: any steeper curve is better
        ([100.0, 100.0, 100.0], [0.0, 0.0, 1.0]),  # the weaker win more often
        ([100.0, -100.0], [1.0, 1.0]),  # flat
    ],
)
def test_no_divisor_where_none_fits(gaps: list[float], scores: list[float]) -> None:
    assert best_divisor(gaps, scores) is None


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_wilson_holds_the_share_and_stays_between_0_and_1(matches: int, share: float) -> None:
    low, high = wilson(share * matches, matches)
    assert 0 <= low <= share + 1e-12 and share - 1e-12 <= high <= 1


def test_wilson_by_the_book() -> None:
    # Newcombe 1998, table I: 81 of 263.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_reach_is_the_difference_as_it_counts() -> None:
    chance = 1 - 1 / (10 ** (100 * 3 / 2000) + 1)  # FIBS, 9 points
    assert Fibs().effective_difference(1600, 1500, chance, START) == pytest.approx(300)
    for system in (Glicko(), Glicko2()):
        first = State(1600.0, extra=system.initial().extra)
        second = State(1500.0, extra=system.initial().extra)

        side = system.rate(first, second, Game(START, (1, 0))).sides[0]
        reach = system.effective_difference(1600, 1500, side.expected, START)
        assert 0 < reach < 100
        assert expected(reach, 0, 400) == pytest.approx(side.expected)
