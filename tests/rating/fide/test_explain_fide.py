"""FIDE's rating in events: recomputed from their own figures, and every step written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating import Fide, Game, Side, State
from match_ratings_worker.rating.fide import FidePeriodState, month_end
from tests.support.fide_players import AT, SCORES, Travel, accrued, player

standings = st.builds(
    FidePeriodState,
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
    assert all(step.result and step.formula for step in system.explain(event))


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
    assert FidePeriodState.of(state).extra() == state.extra


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
    return [(step.label, step.formula, step.result) for step in system.explain(event) if step.player == name]


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
