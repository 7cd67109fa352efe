"""FIDE's rating: tables, K, the 400- and 700-point rules, exactness at ties, periods and first ratings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts import Cause, PlayerUpdate, RatingUpdated
from worker.rating import Fide, Game, InvalidGame, Number, Outcome, RatingSystem, Side, State
from worker.rating.fide import Standing
from worker.rating.fide_rules import (
    BILLION,
    FREE_FROM,
    counted_difference,
    divide,
    expected_score,
    first_rating,
    k_factor,
    limited_k,
    linear_performance,
    month_end,
    month_of,
    performance,
)
from worker.rating.fide_tables import expected_hundredths, rating_difference

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


AT = ms("2026-10-15")
LATER = ms("2026-11-15")
SCORES = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
MONTH = Fide(floor=1)


def player(rating: int, games: int = 100, **standing: int) -> State:
    return State(rating, games, extra=Standing(**standing).extra())


def after(state: State, side: Side, played: int = 1) -> State:
    """The state as the worker keeps it after a game (or, with 0, after a closing)."""
    return State(side.rating, state.games + played, state.last_game, side.extra)


def accrued(system: Fide, state: State, games: list[tuple[int, float]], at: int = AT) -> State:
    for opponent, score in games:
        game = Game(at, (score, 1 - score))
        state = after(state, system.rate(state, player(opponent), game).sides[0])
    return state


def published(vectors: Vectors, difference: int) -> Fraction:
    """Table 8.1.2 read independently, as an exact fraction."""
    for row in vectors("fide_tables")["pd"]:
        if row["D_min"] <= abs(difference) and (row["D_max"] is None or abs(difference) <= row["D_max"]):
            return Fraction(str(row["H"] if difference >= 0 else row["L"]))
    raise AssertionError


def half_away(value: Fraction | int) -> int:
    whole = int(value)
    return whole if abs(value - whole) < Fraction(1, 2) else whole + (1 if value > 0 else -1)


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
    curve = [divide(expected_score(difference, "curve") * 100, BILLION) for difference in range(401)]
    table = [expected_hundredths(difference) for difference in range(401)]
    assert sum(one != other for one, other in zip(curve, table, strict=True)) == 134
    assert (curve[400], table[400]) == (91, 92)


def test_published_changes(vectors: Vectors) -> None:
    for case in vectors("fide")["cases"]:
        chance, k, score = expected_score(case["D"], "curve"), case["K"], case["score"]
        assert chance / BILLION == pytest.approx(case["E_logistic"], abs=1e-9)
        assert k * (score - chance / BILLION) == pytest.approx(case["delta_logistic"], abs=1e-6)
        assert divide(k * (int(score * BILLION) - chance), BILLION) == case["rounded_logistic"]
        assert expected_hundredths(case["D"]) == round(100 * case["PD"])
        assert divide(k * (int(score * 100) - expected_hundredths(case["D"])), 100) == case["rounded_table"]


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
    assert counted_difference(own, opponent, ms(at)) == counted


def test_the_rules_version_changes_with_the_exception() -> None:
    assert Fide().rules_at(FREE_FROM - 1) == "2024-03"
    assert Fide().rules_at(FREE_FROM) == "2025-10"


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
    assert divide(numerator, denominator) == half_away(Fraction(numerator, denominator))


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


# Periods.


def test_the_published_period(vectors: Vectors) -> None:
    case = vectors("fide")["period"]
    for expectation, key in (("table", "total_table"), ("curve", "total_logistic")):
        system = Fide.model_validate({"expectation": expectation, "k": case["K"]})
        state = accrued(system, player(case["rating"]), [(rating, score) for rating, score in case["games"]])
        total = case["K"] * Standing.of(state).period_gain / BILLION
        assert total == pytest.approx(case[key], abs=0.0006)
        assert system.close(state).rating == case["new_rating"]


def test_a_game_by_month_changes_no_rating_until_the_month_closes() -> None:
    # Given a monthly ladder, when a game is rated
    state = player(1500)
    side = Fide().rate(state, player(1500), Game(AT, (1, 0))).sides[0]
    assert (side.change, side.rating, side.expected, side.k) == (0, 1500, 0.5, None)
    # Then it waits for the end of October (UTC).
    held = after(state, side)
    assert Fide().closes_at(held) == month_end(202610) == ms("2026-11-01")
    # And closing gives the change once; a second closing nothing.
    closed = Fide().close(held)
    assert (closed.change, closed.rating, closed.k, closed.expected) == (10, 1510, 20, 0.5)
    assert Fide().closes_at(after(held, closed, 0)) is None
    assert Fide().close(after(held, closed, 0)).change == 0


def test_a_new_player_holds_nothing() -> None:
    assert Fide().closes_at(Fide().initial()) is None
    assert Fide().close(Fide().initial()) == Side(0, 1500, 0.0, extra=Fide().initial().extra)


@pytest.mark.parametrize(
    ("at", "month", "end"),
    [
        ("2026-12-31T23:59:59.999", 202612, "2027-01-01"),
        ("2027-01-01", 202701, "2027-02-01"),
        ("2028-02-29T12:00:00", 202802, "2028-03-01"),
    ],
)
def test_months_are_utc_calendar_months(at: str, month: int, end: str) -> None:
    assert month_of(ms(at)) == month
    assert month_end(month) == ms(end)


def test_a_late_game_goes_into_the_open_month() -> None:
    # Given October's list closed
    held = accrued(Fide(), player(1500), [(1500, 1)])
    state = after(held, Fide().close(held), 0)
    # When another game of October arrives, then it is held until the end of November,
    late = accrued(Fide(), state, [(1500, 1)])
    assert Fide().closes_at(late) == month_end(202611)
    # And one round of closing takes it together with November's.
    both = accrued(Fide(), late, [(1500, 1)], LATER)
    assert Fide().closes_at(both) == month_end(202611)
    assert Standing.of(both).period_games == 2
    # And a game of October that arrives late in an open November does not reopen October.
    assert Fide().closes_at(
        accrued(Fide(), accrued(Fide(), player(1500), [(1500, 1)], LATER), [(1500, 1)])
    ) == (month_end(202611))


def test_december_is_followed_by_january() -> None:
    held = accrued(Fide(), player(1500), [(1500, 1)], ms("2026-12-05"))
    state = after(held, Fide().close(held), 0)
    assert Standing.of(state) == Standing(peak=1510, period=202701)


def test_every_game_is_computed_from_the_current_list() -> None:
    # Given ten wins in one month, each against 1500: expected stays 0.5 throughout.
    side = Fide().close(accrued(Fide(), player(1500), [(1500, 1)] * 10))
    assert (side.change, side.expected) == (100, 5.0)


def test_a_rating_under_the_floor_becomes_unrated_and_is_not_clamped() -> None:
    # Given 1405 losing to 1405 with K 20: 1395
    side = Fide().close(accrued(Fide(), player(1405), [(1405, 0)]))
    assert (side.figures["computed"], side.rating, side.change) == (1395, 0, -1405)
    assert not Fide().listed(State(0, extra=side.extra))
    # And at 1400 exactly the player stays rated.
    assert Fide().close(accrued(Fide(), player(1410), [(1410, 0)])).rating == 1400
    assert Fide(floor=1000).close(accrued(Fide(), player(1405), [(1405, 0)])).rating == 1395


def test_there_is_no_floor_game_by_game() -> None:
    side = Fide(period="game").rate(player(1405), player(1405), Game(AT, (0, 1))).sides[0]
    assert side.rating == 1395


def test_over_700_games_leave_no_change() -> None:
    assert Fide().close(accrued(Fide(), player(1500), [(1500, 1)] * 701)).change == 0


# First ratings.


def test_the_published_first_rating() -> None:
    first = first_rating(9507, 5, 6, 1400)
    assert (first.performance.share, first.performance.difference, first.rating) == (57, 50, 1922)


@pytest.mark.parametrize(
    ("opponents", "score", "rating"),
    [
        ([1900, 1901, 1902, 1903, 1901], 3, 1922),
        ([1901] * 4, 3, None),  # fewer than five games
        ([2700] * 9, 9, 2200),  # at most 2200
        ([1401] * 5, 0, None),  # under the floor
    ],
)
def test_an_unrated_player_gets_a_first_rating_at_the_months_end(
    opponents: list[int], score: int, rating: int | None
) -> None:
    # Given an unrated player's games of a month against rated players
    system = Fide(start=0)
    results = [(rating, float(index < score)) for index, rating in enumerate(opponents)]
    state = accrued(system, system.initial(), results)
    # When the month closes
    side = system.close(state)
    assert (side.change, side.rating) == (rating or 0, rating or 0)
    # Then fewer than five games are kept for the next month, and five or more are done with.
    left = Standing.of(after(state, side, 0)).period_games
    assert left == (len(opponents) if len(opponents) < 5 else 0)


def test_an_unrated_players_games_are_collected_over_months() -> None:
    system = Fide(start=0)
    state = accrued(system, system.initial(), [(1900, 1), (1900, 1), (1900, 0)])
    assert system.closes_at(state) is None
    state = accrued(system, state, [(1900, 1), (1900, 0)], LATER)
    assert system.closes_at(state) == month_end(202611)
    assert system.close(state).rating == 1921  # (9500 + 3600) / 7 = 1871.43, + 50


def test_games_against_unrated_players_count_for_nobody() -> None:
    system = Fide(start=0)
    for own in (player(1500), system.initial()):
        outcome = system.rate(own, system.initial(), Game(AT, (1, 0)))
        assert outcome.sides[0].extra == own.extra
        assert outcome.sides[0].figures["counted"] == 0


def test_a_preview_needs_rated_players() -> None:
    with pytest.raises(InvalidGame, match="rating: 0 is not allowed"):
        Fide().preview(State(0, extra=Standing().extra()), player(1500), Game(AT, (1, 0)))


def test_a_prize_moves_a_rating_but_gives_no_first_one() -> None:
    assert Fide().award(player(1500), 50).rating == 1550
    assert Fide().award(player(0), 50).rating == 0


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


# Voids.


@given(st.lists(st.tuples(st.integers(1000, 2400), st.sampled_from([0.0, 0.5, 1.0])), max_size=8), SCORES)
def test_voiding_a_held_game_leaves_the_month_as_if_it_had_not_been(
    through_json: Travel, games: list[tuple[int, float]], scores: tuple[float, float]
) -> None:
    # Given a month with a game to be voided first, and others
    state = player(1700)
    outcome, event = through_json(MONTH, state, player(1650), Game(AT, scores))
    played = accrued(MONTH, after(state, outcome.sides[0]), games)
    # When it is voided, then the sums are those of the others.
    assert MONTH.void(played, event.players[0]).extra[3:] == accrued(MONTH, state, games).extra[3:]


def test_voiding_a_game_of_a_closed_month_corrects_the_next_list(through_json: Travel) -> None:
    state = player(1700)
    outcome, event = through_json(MONTH, state, player(1700), Game(AT, (1, 0)))
    held = after(state, outcome.sides[0])
    closed = after(held, MONTH.close(held), 0)
    corrected = MONTH.void(closed, event.players[0])
    assert MONTH.closes_at(corrected) == month_end(202611)
    assert MONTH.close(corrected).change == -10


def test_voids_around_a_change_between_rated_and_unrated(through_json: Travel) -> None:
    # Given an unrated player with five games, of which one is voided, then four are left
    system = Fide(start=0)
    start = accrued(system, system.initial(), [(1900, 1)] * 4)
    outcome, event = through_json(system, start, player(1950), Game(AT, (1, 0)))
    five = after(start, outcome.sides[0])
    assert Standing.of(system.void(five, event.players[0])) == Standing.of(start)
    # When the first rating is published already, it stands.
    first = after(five, system.close(five), 0)
    assert first.rating > 1900
    assert system.void(first, event.players[0]) == first
    # And one who was rated then and is not now has nothing to correct, whatever is held by now.
    _, rated = through_json(system, player(1900), player(1950), Game(AT, (1, 0)))
    unrated = accrued(system, player(0), [(1900, 0)])
    assert system.void(unrated, rated.players[0]) == unrated
    # Nor is a game of an earlier unrated time taken from later ones.
    assert system.void(unrated, event.players[0]) == unrated


def test_voiding_game_by_game_takes_back_the_change(through_json: Travel) -> None:
    _, event = through_json(Fide(period="game"), player(1700), player(1700), Game(AT, (1, 0)))
    assert Fide(period="game").void(player(1710), event.players[0]).rating == 1700


def test_voiding_a_game_that_did_not_count_changes_nothing(through_json: Travel) -> None:
    _, event = through_json(MONTH, player(1700), player(0), Game(AT, (1, 0)))
    assert MONTH.void(player(1700), event.players[0]) == player(1700)


# Events.


standings = st.builds(
    Standing,
    peak=st.integers(0, 2900),
    birth_year=st.sampled_from([0, 1980, 2008, 2015]),
    period=st.sampled_from([202609, 202610]),  # it is 0 only where no games are held
    period_games=st.integers(0, 900),
    period_gain=st.integers(-(10**12), 10**12),
    period_opponents=st.integers(0, 2_000_000),
    period_halves=st.just(0),
).flatmap(
    # No more points than games.
    lambda held: st.builds(held._replace, period_halves=st.integers(0, 2 * held.period_games))
)
states = st.builds(
    lambda rating, games, held: State(rating, games, extra=held.extra()),
    st.one_of(st.just(0), st.integers(1000, 2900)),
    st.integers(0, 3000),
    standings,
)
systems = st.builds(
    Fide,
    expectation=st.sampled_from(["table", "curve"]),
    period=st.sampled_from(["month", "game"]),
    k=st.sampled_from([None, 16]),
)


@given(systems, states, states, SCORES)
def test_a_games_event_alone_gives_the_same_outcome(
    through_json: Travel, system: Fide, first: State, second: State, scores: tuple[float, float]
) -> None:
    outcome, event = through_json(system, first, second, Game(AT, scores))
    assert system.recompute(event) == outcome
    for part in event.players:
        assert part.after == part.before + part.change
    assert all(step.result and step.formula for step in system.steps(event))


@given(systems, states)
def test_a_closings_event_alone_gives_the_same_closing(system: Fide, state: State) -> None:
    side = system.close(state)
    part = closing_part(state, side)
    assert part.after == part.before + part.change
    if side.figures:
        assert system.recompute_close(part) == side


@given(states)
def test_a_state_survives_as_text(state: State) -> None:
    assert tuple(float(repr(value)) for value in state.extra) == state.extra
    assert Standing.of(state).extra() == state.extra


def closing_part(state: State, side: Side) -> PlayerUpdate:
    part = PlayerUpdate(
        player="ada",
        before=state.rating,
        change=side.change,
        after=side.rating,
        expected=side.expected,
        k=side.k,
        sequence=1,
        figures=dict(side.figures),
    )
    return PlayerUpdate.model_validate_json(part.model_dump_json())


def closing_event(state: State, side: Side) -> RatingUpdated:
    return RatingUpdated(
        cause=Cause.PERIOD,
        ladder="chess",
        system="fide",
        rules="2025-10",
        finished_at=month_end(202610),
        rated_at=month_end(202610),
        players=(closing_part(state, side),),
    )


def lines(system: Fide, event: RatingUpdated, name: str) -> list[tuple[str, str, str]]:
    return [(step.label, step.formula, step.result) for step in system.steps(event) if step.player == name]


def test_the_steps_of_a_game_rated_by_itself(through_json: Travel) -> None:
    system = Fide(period="game")
    _, event = through_json(system, player(2813, peak=2882), player(2400, 5), Game(AT, (1, 0)))
    assert lines(system, event, "first") == [
        ("difference", "2813 - 2400, in full for a player rated 2650 or more", "+413"),
        ("expected", "table 8.1.2 at +413", "0.93"),
        ("K", "a published rating has reached 2400 (peak 2882)", "10"),
        ("change", "10 x (1 - 0.93)", "+0.7000"),
        ("rounded", "half away from zero", "+1"),
        ("rating", "2813 +1", "2814"),
    ]
    assert lines(system, event, "second")[:2] == [
        ("difference", "2400 - 2813, more than 400 counts as 400", "-400"),
        ("expected", "table 8.1.2 at -400", "0.08"),
    ]


def test_the_steps_of_a_game_held_and_of_the_months_end(through_json: Travel) -> None:
    state = accrued(Fide(), player(1500), [(1400, 1)])
    _, event = through_json(Fide(), state, player(1600), Game(AT, (0.5, 0.5)))
    assert lines(Fide(), event, "first") == [
        ("difference", "1500 - 1600", "-100"),
        ("expected", "table 8.1.2 at -100", "0.36"),
        ("gain", "0.5 - 0.36", "+0.14"),
        ("held", "+0.36 and this gain", "+0.5 in 2 games"),
        ("rating", "changes at the end of the month", "1500"),
    ]
    state = accrued(Fide(), state, [(1600, 0.5), (1550, 0)])
    assert lines(Fide(), closing_event(state, Fide().close(state)), "ada") == [
        ("gain", "1.5 - 1.43 in 3 games", "+0.07"),
        ("K", "100 games complete, never rated 2400 (peak 1500)", "20"),
        ("700 rule", "20 x 3 games = 60 <= 700", "20"),
        ("change", "20 x +0.07", "+1.4"),
        ("rounded", "once, half away from zero", "+1"),
        ("computed", "1500 +1", "1501"),
        ("rating", "1400 or more", "1501"),
    ]


def test_the_steps_of_a_first_rating(through_json: Travel) -> None:
    system = Fide(start=0)
    results: list[tuple[int, float]] = [(1900, 1), (1901, 1), (1902, 1), (1903, 0), (1901, 0)]
    state = accrued(system, system.initial(), results)
    _, event = through_json(system, state, player(1900), Game(AT, (1, 0)))
    assert lines(system, event, "first") == [
        ("counted", "unrated: held for a first rating, 1 against 1900", "6 games")
    ]
    assert lines(system, event, "second")[0][0] == "counted"
    assert lines(system, closing_event(state, system.close(state)), "ada") == [
        ("games", "5, of the 5 that are needed", "3 points"),
        ("average", "(9507 + 2 x 1800) / (5 + 2)", "1872.43"),
        ("share", "(3 + 2 x 0.5) / (5 + 2)", "0.57"),
        ("dp", "table 8.1.1", "+50"),
        ("computed", "1872.43 +50, half away from zero, at most 2200", "1922"),
        ("rating", "published from 1400 on", "1922"),
    ]


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
