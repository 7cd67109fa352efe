"""FIDE's rating by month: games held and closed, the floor, first ratings, prizes and voids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from match_ratings_worker.rating import Fide, Game, InvalidGame, Side, State
from match_ratings_worker.rating.fide import SCALE, FidePeriodState, first_rating, month_end, month_of
from tests.support.fide_players import AT, LATER, MONTH, SCORES, Travel, Vectors, accrued, after, ms, player


def test_the_published_period(vectors: Vectors) -> None:
    case = vectors("fide")["period"]
    for expectation, key in (("table", "total_table"), ("curve", "total_logistic")):
        system = Fide.model_validate({"expectation": expectation, "k": case["K"]})
        state = accrued(system, player(case["rating"]), [(rating, score) for rating, score in case["games"]])
        total = case["K"] * FidePeriodState.of(state).period_gain / SCALE
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
    assert FidePeriodState.of(both).period_games == 2
    # And a game of October that arrives late in an open November does not reopen October.
    assert Fide().closes_at(
        accrued(Fide(), accrued(Fide(), player(1500), [(1500, 1)], LATER), [(1500, 1)])
    ) == (month_end(202611))


def test_december_is_followed_by_january() -> None:
    held = accrued(Fide(), player(1500), [(1500, 1)], ms("2026-12-05"))
    state = after(held, Fide().close(held), 0)
    assert FidePeriodState.of(state) == FidePeriodState(peak=1510, period=202701)


def test_every_game_is_computed_from_the_current_list() -> None:
    # Given ten wins in one month, each against 1500: expected stays 0.5 throughout.
    side = Fide().close(accrued(Fide(), player(1500), [(1500, 1)] * 10))
    assert (side.change, side.expected) == (100, 5.0)


def test_a_rating_under_the_floor_becomes_unrated_and_is_not_clamped() -> None:
    # Given 1405 losing to 1405 with K 20: 1395
    side = Fide().close(accrued(Fide(), player(1405), [(1405, 0)]))
    assert (side.figures["computed"], side.rating, side.change) == (1395, 0, -1405)
    assert not Fide().on_leaderboard(State(0, extra=side.extra))
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
    left = FidePeriodState.of(after(state, side, 0)).period_games
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
        Fide().preview(State(0, extra=FidePeriodState().extra()), player(1500), Game(AT, (1, 0)))


def test_a_prize_moves_a_rating_but_gives_no_first_one() -> None:
    assert Fide().award(player(1500), 50).rating == 1550
    assert Fide().award(player(0), 50).rating == 0


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
    assert FidePeriodState.of(system.void(five, event.players[0])) == FidePeriodState.of(start)
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


def test_the_peak_includes_the_list_before_and_the_first_rating() -> None:
    # Given a player brought over at 2405, who falls under 2400 in the first month here
    held = accrued(Fide(), player(2405), [(2405, 0)])
    closed = after(held, Fide().close(held), 0)
    assert (closed.rating, FidePeriodState.of(closed).peak) == (2400, 2405)
    # And a player whose first rating is 1921: both are remembered.
    system = Fide(start=0)
    unrated = accrued(system, system.initial(), [(1900, 1)] * 3 + [(1900, 0)] * 2)
    assert FidePeriodState.of(after(unrated, system.close(unrated), 0)).peak == 1921


def test_a_void_of_an_earlier_time_takes_no_game_out_of_a_later_one(through_json: Travel) -> None:
    # Given a game of October, which is closed, and three games held in November
    state = player(1700)
    outcome, event = through_json(MONTH, state, player(1700), Game(AT, (1, 0)))
    held = after(state, outcome.sides[0])
    november = accrued(MONTH, after(held, MONTH.close(held), 0), [(1700, 1)] * 3, LATER)
    # When October's is voided, then only its gain is taken back.
    before, left = FidePeriodState.of(november), FidePeriodState.of(MONTH.void(november, event.players[0]))
    assert left == before._replace(period_gain=before.period_gain - SCALE // 2)
    # And when the game is one that led to a first rating, nothing is.
    _, unrated = through_json(MONTH, player(0), player(1700), Game(AT, (1, 0)))
    assert MONTH.void(november, unrated.players[0]) == november
