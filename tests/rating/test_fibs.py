"""The FIBS rating: the published figures, experience before or after, lengths, and its laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Fibs, Game, InvalidGame, Outcome, RatingSystem, State
from match_ratings_worker.rating.fibs import k_factor, winning_chance

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]

AT = 1_796_000_000_000
EXPERIENCED = 1000.0
SHOWN = (1, 3, 5, 7, 9, 11)

ratings = st.floats(-2000, 5000)
experiences = st.integers(0, 100_000).map(float)
states = st.builds(lambda rating, experience: State(rating, extra=(experience,)), ratings, experiences)
lengths = st.integers(1, 1000)
SCORES = st.sampled_from([(1.0, 0.0), (0.0, 1.0)])


def player(rating: float, experience: float = EXPERIENCED) -> State:
    return State(rating, extra=(experience,))


def changes(gap: float, length: int, winner: float, loser: float, **settings: Any) -> tuple[float, float]:
    """The winner's and the loser's change; `gap` is the winner's rating minus the loser's."""
    sides = (
        Fibs(**settings)
        .rate(player(1500 + gap, winner), player(1500, loser), Game(AT, (1, 0), length=length))
        .sides
    )
    return sides[0].change, sides[1].change


def test_published_gains_and_losses_of_experienced_players(vectors: Vectors) -> None:
    for gap, rows in vectors("fibs")["win_lose"].items():
        for length, (win, loss) in zip(SHOWN, rows, strict=False):
            # The vectors give the opponent's rating minus the player's own.
            won = changes(-int(gap), length, EXPERIENCED, EXPERIENCED)[0]
            lost = changes(int(gap), length, EXPERIENCED, EXPERIENCED)[1]
            assert (round(won, 1), round(lost, 1)) == (win, loss)


def test_published_winning_chances(vectors: Vectors) -> None:
    for lead, chances in vectors("fibs")["win_probability"].items():
        for length, chance in zip(SHOWN, chances, strict=True):
            assert round(winning_chance(1500 + int(lead), 1500, length), 3) == chance


def test_computed_cases_with_the_experience_as_given(vectors: Vectors) -> None:
    for case in vectors("fibs")["cases"]:
        win, loss = changes(
            case["lead"], case["n"], case["exp_winner"], case["exp_loser"], experience="before"
        )
        assert win == pytest.approx(case["win"], abs=1e-9)
        assert loss == pytest.approx(case["loss_of_opponent"], abs=1e-9)
        assert winning_chance(case["lead"], 0, case["n"]) == pytest.approx(case["P_winner"], abs=1e-12)


def test_the_match_itself_counts_as_experience(vectors: Vectors) -> None:
    for case in vectors("fibs")["post_match_experience"]:
        win, loss = changes(case["d"], case["n"], case["exp"], case["exp"])
        assert win == pytest.approx(case["change"], abs=1e-9)
        assert loss == pytest.approx(-case["change"], abs=1e-9)


@pytest.mark.parametrize(("experience", "k"), [(0, 5), (100, 4), (399, 1.01), (400, 1), (401, 1), (9999, 1)])
def test_k_falls_from_5_to_1(experience: float, k: float) -> None:
    assert k_factor(experience) == pytest.approx(k)


def test_experience_grows_by_the_length_for_both() -> None:
    for setting in ("after", "before"):
        system = Fibs.model_validate({"experience": setting})
        outcome = system.rate(player(1500, 3), player(1500, 40), Game(AT, (0, 1), length=7))
        assert [side.extra for side in outcome.sides] == [(10,), (47,)]


def test_the_winning_chance_is_the_formula_with_an_underdog() -> None:
    # Given 1400 against 1600 to 5 points, by the formula as it is published
    upset = 1 / (10 ** (200 * math.sqrt(5) / 2000) + 1)
    assert winning_chance(1400, 1600, 5) == pytest.approx(upset, abs=1e-15)
    assert winning_chance(1600, 1400, 5) == pytest.approx(1 - upset, abs=1e-15)


@pytest.mark.parametrize("gap", [1e6, -1e6, 1e15])
def test_an_absurd_gap_gives_nothing_or_everything(gap: float) -> None:
    win, loss = changes(gap, 9, EXPERIENCED, EXPERIENCED)
    assert (win, loss) == ((0, 0) if gap > 0 else (12, -12))


def test_unlimited_matches_are_not_rated() -> None:
    system, game = Fibs(), Game(AT, (1, 0))
    assert not system.accepts(game)
    assert system.accepts(game._replace(length=1))
    with pytest.raises(InvalidGame, match="length: None is not allowed"):
        system.rate(system.initial(), system.initial(), game)


def test_a_draw_is_refused() -> None:
    with pytest.raises(InvalidGame, match="winner: null"):
        Fibs().rate(player(1500), player(1500), Game(AT, (0.5, 0.5), length=3))


def test_everyone_starts_at_1500_without_experience() -> None:
    assert Fibs().initial() == State(1500.0, extra=(0.0,))
    assert Fibs().depends_on == ("length",)


@pytest.mark.parametrize("settings", [{"experience": "during"}, {"start": "many"}, {"start": math.inf}])
def test_wrong_settings_are_refused_by_name(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(settings))):
        Fibs.model_validate(settings)


@given(ratings, ratings, lengths, experiences)
def test_with_equal_experience_the_changes_mirror_each_other(
    one: float, two: float, length: int, experience: float
) -> None:
    sides = (
        Fibs().rate(player(one, experience), player(two, experience), Game(AT, (1, 0), length=length)).sides
    )
    assert sides[0].change == pytest.approx(-sides[1].change, abs=1e-9)
    assert 0 <= sides[0].change <= 20 * math.sqrt(length)


@given(states, states, lengths, SCORES)
def test_who_is_named_first_does_not_matter(
    first: State, second: State, length: int, scores: tuple[float, float]
) -> None:
    ab = Fibs().rate(first, second, Game(AT, scores, length=length)).sides
    ba = Fibs().rate(second, first, Game(AT, scores[::-1], length=length)).sides
    for one, other in zip(ab, ba[::-1], strict=True):
        assert one.change == pytest.approx(other.change, abs=1e-9)


@given(ratings, ratings, ratings, lengths)
def test_the_stronger_the_loser_the_more_the_winner_gains(
    own: float, a: float, b: float, length: int
) -> None:
    weak, strong = sorted((a, b))
    gains = [
        Fibs().rate(player(own), player(other), Game(AT, (1, 0), length=length)).sides[0].change
        for other in (weak, strong)
    ]
    assert gains[0] <= gains[1]


@given(st.sampled_from(["after", "before"]), states, states, lengths, SCORES)
def test_an_event_alone_gives_the_same_outcome(
    through_json: Travel, setting: Any, first: State, second: State, length: int, scores: tuple[float, float]
) -> None:
    # Given decimals of any kind, nothing is lost on the way through JSON or a Redis hash.
    system = Fibs(experience=setting)
    outcome, event = through_json(system, first, second, Game(AT, scores, length=length))
    assert system.recompute(event) == outcome
    for side in outcome.sides:
        assert system.parse_rating(repr(side.rating)) == side.rating
    assert all(step.result and step.formula for step in system.explain(event))


def test_the_steps_spell_out_the_formula(through_json: Travel) -> None:
    _, event = through_json(Fibs(), player(1600, 250), player(1500, 1000), Game(AT, (1, 0), length=5))
    steps = [(step.player, step.label, step.formula, step.result) for step in Fibs().explain(event)]
    assert steps[:6] == [
        (None, "length", "sqrt(5)", "2.2361"),
        ("first", "expected", "1 - 1 / (10^(100.00 x 2.2361 / 2000) + 1)", "0.5640"),
        ("first", "experience", "250 + 5", "255"),
        ("first", "K", "max(1, 5 - (250 + 5) / 100)", "2.45"),
        ("first", "change", "4 x 2.45 x 2.2361 x (1 - 0.5640)", "+9.5541"),
        ("first", "rating", "1600.00 +9.55", "1609.55"),
    ]
    assert steps[6] == ("second", "expected", "1 / (10^(100.00 x 2.2361 / 2000) + 1)", "0.4360")
