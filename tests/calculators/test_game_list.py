"""The calculators: every result side by side, FIDE's performance and period, all ready for JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from match_ratings.messages import CUBES
from match_ratings_worker.calculators import LENGTHS, FidePlayer, performance, period, preview
from match_ratings_worker.rating import (
    SYSTEMS,
    Backgammon,
    Fibs,
    Fide,
    Game,
    Glicko,
    Glicko2,
    GlickoPeriods,
    InvalidGame,
    RatingSystem,
    State,
)
from match_ratings_worker.rating.fide import FidePeriodState
from match_ratings_worker.rating.hypothetical_event import event_of

Vectors = Callable[[str], Any]

AT = int(datetime(2026, 10, 15, tzinfo=UTC).timestamp() * 1000)


def rated(system: RatingSystem, rating: float) -> State:
    return system.initial()._replace(rating=int(rating) if system.integer_ratings else float(rating))


# Preview.


def test_backgammon_shows_win_and_loss_at_every_cube(vectors: Vectors) -> None:
    # Given two players of 1500, when every result is previewed
    rows = preview(Backgammon(), (State(1500), State(1500)), at=AT)
    # Then there is a win and a loss for each cube value, no draw, and the published changes.
    assert [(row.cube, row.result) for row in rows] == [(cube, r) for cube in CUBES for r in ("win", "loss")]
    published = vectors("backgammon")["published"]["cube"]
    for row in rows:
        change = published[str(row.cube)][1]
        assert (row.first.change, row.second.change) == (
            (change, -change) if row.result == "win" else (-change, change)
        )
        assert row.first.after == 1500 + row.first.change
        assert row.length is None


def test_heavy_players_and_chosen_cubes() -> None:
    (win, loss) = preview(Backgammon(), (State(1500), State(1500)), at=AT, cubes=[2], recent_games=(60, 10))
    assert (win.first.change, win.second.change, win.first.k, win.second.k) == (9, -19, 16, 32)
    assert (loss.first.change, loss.second.change) == (-9, 19)


def test_fibs_shows_win_and_loss_at_every_length() -> None:
    rows = preview(Fibs(), (Fibs().initial(), Fibs().initial()), at=AT)
    assert [(row.length, row.result) for row in rows] == [(n, r) for n in LENGTHS for r in ("win", "loss")]
    assert rows[0].first.change == pytest.approx(9.98)
    assert rows[0].cube is None
    assert rows[8].second.change == pytest.approx(-29.46)


@pytest.mark.parametrize("system", [Fide(), Glicko(), GlickoPeriods(), Glicko2()])
def test_systems_with_draws_show_win_draw_and_loss(system: RatingSystem) -> None:
    rows = preview(system, (rated(system, 1700), rated(system, 1500)), at=AT)
    assert [row.result for row in rows] == ["win", "draw", "loss"]
    assert rows[0].first.change > 0 > rows[1].first.change > rows[2].first.change
    assert rows[0].second.change < 0 < rows[1].second.change < rows[2].second.change


def test_fide_by_month_shows_what_one_game_would_change() -> None:
    established = State(1500, 100, extra=FidePeriodState().extra())
    rows = preview(Fide(), (established, established._replace(rating=1700)), at=AT)
    assert [row.first.change for row in rows] == [15, 5, -5]
    with pytest.raises(InvalidGame, match="unrated"):
        preview(Fide(), (established._replace(rating=0), established), at=AT)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"cubes": [3]}, "cubes: 3 is not allowed; 1, 2, 4, 8, 16, 32, 64 is"),
        ({"lengths": [0]}, "lengths: 0 is not allowed; 1 to 1000 is"),
        ({"recent_games": (-1, 0)}, "recent_games: -1 is not allowed"),
    ],
)
def test_wrong_inputs_are_refused_by_name(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        preview(Backgammon(), (State(1500), State(1500)), at=AT, **arguments)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_previewed_explained_and_written_as_json(name: str) -> None:
    system = SYSTEMS[name]()
    first, second = rated(system, 1650), rated(system, 1500)
    rows = preview(system, (first, second), at=AT)
    assert json.loads(json.dumps([dataclasses.asdict(row) for row in rows]))[0]["first"]["before"] == 1650
    event = event_of(system, (first, second), Game(AT, (1, 0), cube=2, length=5))
    assert {step.player for step in system.explain(event)} >= {"first", "second"}
    assert system.recompute(event) == system.rate(first, second, Game(AT, (1, 0), cube=2, length=5))


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_the_shape_that_the_engine_expects(name: str) -> None:
    system = SYSTEMS[name]()
    start = system.initial()
    assert system.name == name
    assert len(start.extra) == len(system.state_fields)
    assert system.closes_at(start) is None
    assert system.close(start).extra == start.extra
    assert type(start.rating) is (int if system.integer_ratings else float)
    assert system.parse_rating(str(start.rating)) == start.rating
    sides = system.rate(start, start, Game(AT, (1, 0), length=1)).sides
    assert all(len(side.extra) == len(system.state_fields) for side in sides)
    with pytest.raises(ValueError, match="no_such_setting"):
        SYSTEMS[name].model_validate({"no_such_setting": 1})


# Performance.


def test_performance_by_table_and_linear() -> None:
    by_table = performance([1400, 1600, 1550, 1450], 3)
    assert (by_table.average, by_table.share, by_table.difference, by_table.rating) == (1500, 75, 193, 1693)
    linear = performance([1400, 1600, 1550, 1450], 3, "linear")
    assert (linear.share, linear.difference, linear.rating) == (None, 200, 1700)
    with pytest.raises(ValueError, match=r"score: 4 of 4 is 100 %"):
        performance([1400, 1600, 1550, 1450], 4, "linear")


# A FIDE period.


def test_the_published_period(vectors: Vectors) -> None:
    case = vectors("fide")["period"]
    games = [(rating, score) for rating, score in case["games"]]
    table = period(FidePlayer(case["rating"]), games, at=AT, system=Fide(k=case["K"]))
    assert [(row.difference, row.expected, row.gain) for row in table.games] == [
        (100, 0.64, 0.36),
        (-100, 0.36, 0.14),
        (-50, 0.43, -0.43),
    ]
    assert (table.score, table.expected, table.gain, table.exact) == (1.5, 1.43, 0.07, case["total_table"])
    assert (table.k_by_rules, table.k, table.change, table.after) == (20, 20, 1, case["new_rating"])
    curve = period(FidePlayer(case["rating"]), games, at=AT, system=Fide(k=case["K"], expectation="curve"))
    assert curve.exact == pytest.approx(case["total_logistic"], abs=0.0006)
    assert curve.after == case["new_rating"]


def test_k_and_700_rules_in_a_period(vectors: Vectors) -> None:
    for row in vectors("fide")["rule_700"]:
        report = period(FidePlayer(1500), [(1500, 0.5)] * row["games"], at=AT, system=Fide(k=row["K"]))
        assert (report.k_by_rules, report.k) == (row["K"], row["K_used"])
    assert period(FidePlayer(1500), [(1500, 1)], at=AT).k == 20
    assert period(FidePlayer(1500, games=29), [(1500, 1)], at=AT).k == 40
    assert period(FidePlayer(1500, birth_year=2008), [(1500, 1)], at=AT).k == 40
    assert period(FidePlayer(1500, peak=2400), [(1500, 1)], at=AT).k == 10


def test_a_period_under_the_floor_ends_unrated() -> None:
    report = period(FidePlayer(1405), [(1405, 0)], at=AT)
    assert (report.change, report.computed, report.after) == (-10, 1395, None)


def test_a_first_rating() -> None:
    games: list[tuple[int, float]] = [(1900, 1), (1901, 1), (1902, 1), (1903, 0), (1901, 0)]
    report = period(FidePlayer(0), games, at=AT)
    assert (report.before, report.change, report.computed, report.after) == (0, 0, 1922, 1922)
    assert (report.k, report.expected, report.games[0].expected) == (None, None, None)
    few = period(FidePlayer(0), games[:4], at=AT)
    assert few.after is None
    assert few.steps[-1].result == "unrated"


def test_a_periods_steps_and_json() -> None:
    report = period(FidePlayer(1500), [(1400, 1), (1600, 0.5)], at=AT)
    assert [step.label for step in report.steps] == [
        "gain", "K", "700 rule", "change", "rounded", "computed", "rating"
    ]  # fmt: skip
    assert json.loads(json.dumps(dataclasses.asdict(report)))["after"] == 1510


@pytest.mark.parametrize(
    ("rating", "games", "problem"),
    [
        (1500, [], "games: none are given"),
        (-1, [(1500, 1)], "rating: -1 is not allowed"),
        (1500, [(0, 1)], "opponent: 0 is not allowed"),
        (1500, [(1500, 2)], "score: 2 is not allowed; 1, 0.5 or 0 is"),
    ],
)
def test_wrong_periods_are_refused_by_name(rating: int, games: list[tuple[int, float]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        period(FidePlayer(rating), games, at=AT)
