"""The backgammon system: every published figure, rounding, the history of its rules, and its laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from match_ratings import RatingUpdated
from match_ratings.messages import CUBES
from match_ratings_worker.rating import Backgammon, Game, InvalidGame, Outcome, RatingSystem, State
from match_ratings_worker.rating.elo import expected, round_half_away
from match_ratings_worker.rating.gammon42 import HISTORY, coefficient

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]

AT = 1_796_000_000_000  # November 2026
DATES = {"1.0.5": "2024-01-01T00:00:00Z", "1.2.0": "2025-01-01T00:00:00Z", "1.3.1": "2026-10-01T00:00:00Z"}
NORMAL, HEAVY = 49, 50

ratings = st.integers(-3000, 6000)
cubes = st.sampled_from(CUBES)
recents = st.integers(0, 200)


def changes(
    gap: int, *, winner_games: int = 0, loser_games: int = 0, cube: int = 1, at: int = AT, **settings: Any
) -> tuple[float, float]:
    """The winner's and the loser's change; `gap` is the winner's rating minus the loser's."""
    game = Game(at, (1, 0), (winner_games, loser_games), cube)
    sides = Backgammon(**settings).rate(State(1500 + gap), State(1500), game).sides
    return sides[0].change, sides[1].change


def games_for(k: int) -> int:
    return HEAVY if k == 16 else 0


def test_published_expected_scores(vectors: Vectors) -> None:
    for gap, percent in vectors("backgammon")["published"]["expected_pct"].items():
        assert round(100 * expected(1500 + int(gap), 1500, 1200), 1) == percent


def test_published_changes_by_gap(vectors: Vectors) -> None:
    for gap, (favourite, underdog) in vectors("backgammon")["published"]["change_K32_cube1"].items():
        assert changes(int(gap)) == (favourite, -favourite)
        assert changes(-int(gap)) == (underdog, -underdog)


def test_published_changes_of_heavy_players(vectors: Vectors) -> None:
    for gap, by_k in vectors("backgammon")["published"]["heavy"].items():
        for k, (win, loss) in by_k.items():
            count = games_for(int(k))
            # When the favourite wins, and when the favourite loses.
            assert changes(int(gap), winner_games=count, loser_games=count)[0] == win
            assert changes(-int(gap), winner_games=count, loser_games=count)[1] == loss


def test_published_coefficients(vectors: Vectors) -> None:
    for cube, (factor, k32, k16) in vectors("backgammon")["published"]["cube"].items():
        assert round(coefficient(int(cube)), 2) == factor
        assert changes(0, cube=int(cube)) == (k32, -k32)
        assert changes(0, cube=int(cube), winner_games=HEAVY, loser_games=HEAVY) == (k16, -k16)


def test_published_examples_of_unequal_k(vectors: Vectors) -> None:
    first, second = vectors("backgammon")["published"]["examples"]
    assert changes(0, winner_games=60, loser_games=10) == (first["winner"], first["loser"]) == (8, -16)
    assert changes(0, winner_games=10, loser_games=60) == (second["winner"], second["loser"]) == (16, -8)


def test_published_history_at_300_points(vectors: Vectors) -> None:
    starts = {"400": "1.0.5", "800": "1.2.0", "1200": "1.3.1"}
    for divisor, (percent, win, loss) in vectors("backgammon")["published"]["history_diff300"].items():
        rules = {starts[divisor]: "2020-01-01T00:00:00Z"}
        assert round(100 * expected(1800, 1500, int(divisor)), 1) == percent
        assert changes(300, rules=rules)[0] == win
        assert changes(-300, rules=rules)[1] == loss


def test_changes_computed_by_an_independent_program(vectors: Vectors) -> None:
    rows = vectors("backgammon")["computed"]
    assert len(rows) == 112
    for row in rows:
        counts = {"winner_games": games_for(row["winnerK"]), "loser_games": games_for(row["loserK"])}
        assert changes(row["winner_minus_loser"], cube=row["cube"], **counts) == (row["winner"], row["loser"])
        assert coefficient(row["cube"]) == pytest.approx(row["coef"], abs=1e-15)


def test_changes_nearest_to_a_half(vectors: Vectors) -> None:
    for row in vectors("backgammon")["nearest_to_half"]:
        count = games_for(row["K"])
        gap, cube = row["winner_minus_loser"], row["cube"]
        assert changes(gap, cube=cube, winner_games=count, loser_games=count)[0] == row["winner"]


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.49999999999999994, 0),  # floor(x + 0.5) gives 1
        (-0.49999999999999994, 0),
        (0.5, 1),  # round() gives 0
        (-0.5, -1),
        (1.5, 2),
        (2.5, 3),  # round() gives 2
        (-2.5, -3),
        (18.666666666666668, 19),
        (4503599627370497.5, 4503599627370498),
        (9007199254740993.0, 9007199254740992),
        (-0.0, 0),
    ],
)
def test_rounding_is_half_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded
    assert type(round_half_away(value)) is int


@given(st.floats(-1e9, 1e9))
@example(0.49999999999999994)
def test_rounding_is_odd_and_nearest(value: float) -> None:
    assert round_half_away(-value) == -round_half_away(value)
    assert abs(round_half_away(value) - value) <= 0.5


def test_the_change_is_rounded_once_from_unrounded_factors() -> None:
    # Given games in which rounding the expected score, the coefficient or the unturned change beforehand
    # gives one point too many or too few, the change is that of the unrounded formula.
    assert changes(358, cube=2) == (12, -12)
    assert changes(189, cube=4) == (18, -18)
    assert changes(404, cube=32) == (19, -19)


@pytest.mark.parametrize("gap", [400_000, 10**9, 10**15, -400_000, -(10**9), -(10**15)])
def test_an_absurd_gap_gives_nothing_or_all_of_k(gap: int) -> None:
    # Given ratings so far apart that 10 ** x overflows a float, when they play
    # Then the favourite's win changes nothing, and the underdog's win the full K.
    assert changes(gap) == ((0, 0) if gap > 0 else (32, -32))
    assert changes(gap, cube=64) == ((0, 0) if gap > 0 else (64, -64))


def test_a_win_against_a_far_weaker_player_can_give_nothing() -> None:
    assert changes(2200) == (0, 0)


@pytest.mark.parametrize(("count", "k"), [(0, 32), (49, 32), (50, 16), (51, 16), (2000, 16)])
def test_k_falls_at_50_recent_games_and_is_each_players_own(count: int, k: int) -> None:
    outcome = Backgammon().rate(State(1500), State(1500), Game(AT, (1, 0), (count, 49)))
    assert [side.k for side in outcome.sides] == [k, 32]


def test_a_draw_is_refused() -> None:
    with pytest.raises(InvalidGame, match="winner: null"):
        Backgammon().rate(State(1500), State(1500), Game(AT, (0.5, 0.5)))


def test_everyone_starts_at_the_setting() -> None:
    assert Backgammon().initial() == State(1500)
    assert Backgammon(start=1000).initial() == State(1000)
    assert Backgammon().on_leaderboard(State(-20))


def test_a_prize_moves_the_rating_and_nothing_else() -> None:
    assert Backgammon().award(State(1500, 3, 7), 50) == State(1550, 3, 7)


# The history of the rules.


@pytest.mark.parametrize(
    ("finished_at", "version"),
    [
        (1_704_067_199_999, "1.0"),
        (1_704_067_200_000, "1.0.5"),  # 2024-01-01
        (1_735_689_599_999, "1.0.5"),
        (1_735_689_600_000, "1.2.0"),  # 2025-01-01
        (1_790_812_799_999, "1.2.0"),
        (1_790_812_800_000, "1.3.1"),  # 2026-10-01
        (AT, "1.3.1"),
    ],
)
def test_a_game_is_rated_by_the_rules_in_force_when_it_finished(finished_at: int, version: str) -> None:
    system = Backgammon.model_validate({"rules": DATES})
    assert system.rules_at(finished_at) == version
    assert system.rate(State(1500), State(1500), Game(finished_at, (1, 0))).rules == version


def test_without_dates_the_newest_rules_rate_every_game() -> None:
    assert Backgammon().rules_at(100_000_000_000) == Backgammon().rules_at(AT) == "1.3.1"


def test_before_a_single_date_the_version_before_it_is_in_force() -> None:
    system = Backgammon.model_validate({"rules": {"1.3.1": DATES["1.3.1"]}})
    assert system.rules_at(1_700_000_000_000) == "1.2.0"


def test_before_1_0_5_the_cube_multiplied_the_change() -> None:
    old = 1_700_000_000_000
    assert changes(0, cube=4, at=old, rules=DATES) == (64, -64)
    assert changes(300, cube=2, at=old, rules=DATES) == (10, -10)  # 2 x 4.83 = 9.66


@pytest.mark.parametrize("at", [1_700_000_000_000, 1_710_000_000_000, 1_740_000_000_000])
def test_before_1_3_1_heavy_players_kept_k_32(at: int) -> None:
    assert changes(0, winner_games=60, loser_games=60, at=at, rules=DATES) == (16, -16)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"9.9": "2026-01-01T00:00:00Z"}, "'9.9' is not a version of the rules; known are 1.0, 1.0.5"),
        ({"1.0.5": "2026-01-01T00:00:00Z", "1.2.0": "2025-01-01T00:00:00Z"}, "a later version must come"),
        ({"1.2.0": "2026-01-01T00:00:00Z", "1.3.1": "2026-01-01T00:00:00Z"}, "a later version must come"),
        ({"1.3.1": "2026-10-01"}, "rules.1.3.1"),
        ({"1.3.1": 1_790_812_800}, "rules.1.3.1"),
    ],
)
def test_wrong_dates_are_refused_with_the_reason(rules: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Backgammon.model_validate({"rules": rules})
    assert problem.replace("rules.1.3.1", "1.3.1") in str(caught.value)


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError, match="divisor"):
        Backgammon.model_validate({"divisor": 800})


# Its laws.


@given(ratings, ratings, cubes, recents, st.sampled_from(HISTORY))
def test_with_the_same_k_the_changes_mirror_each_other(
    winner: int, loser: int, cube: int, recent: int, rules: Any
) -> None:
    system = Backgammon.model_validate({"rules": {rules.version: "2020-01-01T00:00:00Z"}})
    first, second = system.rate(State(winner), State(loser), Game(AT, (1, 0), (recent, recent), cube)).sides
    assert first.change == -second.change >= 0


@given(ratings, ratings, cubes, recents, recents)
def test_who_is_named_first_does_not_matter(one: int, two: int, cube: int, few: int, many: int) -> None:
    system = Backgammon()
    ab = system.rate(State(one), State(two), Game(AT, (1, 0), (few, many), cube))
    ba = system.rate(State(two), State(one), Game(AT, (0, 1), (many, few), cube))
    assert ab.sides == ba.sides[::-1]


@given(ratings, ratings, ratings, cubes)
def test_the_stronger_the_loser_the_more_the_winner_gains(own: int, one: int, two: int, cube: int) -> None:
    weak, strong = sorted((one, two))
    against_weak, against_strong = changes(own - weak, cube=cube), changes(own - strong, cube=cube)
    assert 0 <= against_weak[0] <= against_strong[0] <= round_half_away(32 * coefficient(cube))


@given(ratings, ratings, recents, recents)
def test_the_higher_the_cube_the_larger_the_changes(one: int, two: int, few: int, many: int) -> None:
    sizes = [changes(one - two, cube=cube, winner_games=few, loser_games=many) for cube in CUBES]
    assert [size[0] for size in sizes] == sorted(size[0] for size in sizes)
    assert [size[1] for size in sizes] == sorted((size[1] for size in sizes), reverse=True)


@given(ratings, ratings, cubes, recents, recents)
def test_ratings_and_changes_stay_whole_and_add_up(
    one: int, two: int, cube: int, few: int, many: int
) -> None:
    for state, side in zip(
        (State(one), State(two)),
        Backgammon().rate(State(one), State(two), Game(AT, (0, 1), (few, many), cube)).sides,
        strict=True,
    ):
        assert type(side.change) is int and type(side.rating) is int
        assert side.rating == state.rating + side.change


@given(ratings, ratings, cubes, st.sampled_from([32, 16]))
def test_the_change_is_the_nearest_whole_number_to_the_formula(one: int, two: int, cube: int, k: int) -> None:
    # Given the formula in a second form, with logarithms instead of powers
    exact = k / (1 + math.exp((one - two) * math.log(10) / 1200)) * (1 + math.log(cube, 64))
    assume(abs(exact % 1 - 0.5) > 1e-9)
    # Then no other whole number is nearer.
    count = games_for(k)
    assert abs(changes(one - two, cube=cube, winner_games=count, loser_games=count)[0] - exact) < 0.5


@given(ratings, ratings, cubes, recents, recents, st.sampled_from([(1.0, 0.0), (0.0, 1.0)]))
def test_an_event_alone_gives_the_same_outcome(
    through_json: Travel, one: int, two: int, cube: int, few: int, many: int, scores: tuple[float, float]
) -> None:
    system = Backgammon.model_validate({"rules": DATES})
    outcome, event = through_json(system, State(one), State(two), Game(AT, scores, (few, many), cube))
    assert system.recompute(event) == outcome


def test_the_steps_spell_out_the_formula(through_json: Travel) -> None:
    _, event = through_json(Backgammon(), State(1800), State(1500), Game(AT, (1, 0), (60, 10), 2))
    lines = [(step.player, step.label, step.formula, step.result) for step in Backgammon().explain(event)]
    assert lines == [
        (None, "coefficient", "1 + log2(2) / 6", "1.1667"),
        ("first", "expected", "1 / (1 + 10^((1500 - 1800) / 1200))", "0.6401"),
        ("first", "K", "60 games in 7 days >= 50", "16"),
        ("first", "change", "16 x (1 - 0.6401) x 1.1667", "+6.7188"),
        ("first", "rounded", "half away from zero", "+7"),
        ("first", "rating", "1800 +7", "1807"),
        ("second", "expected", "1 - 1 / (1 + 10^((1500 - 1800) / 1200))", "0.3599"),
        ("second", "K", "10 games in 7 days < 50", "32"),
        ("second", "change", "32 x (0 - 0.3599) x 1.1667", "-13.4376"),
        ("second", "rounded", "half away from zero", "-13"),
        ("second", "rating", "1500 -13", "1487"),
    ]
