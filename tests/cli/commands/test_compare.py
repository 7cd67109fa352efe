"""Comparing an old rater's changes with the shadow's: what is counted, what is shown, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.ledger import parse_event
from match_ratings_worker.migration import Comparison, InvalidLine, ReferenceChange, read_reference_change
from tests.support.clock import DAY, now_ms
from tests.support.command_line import Cli

Players = Callable[..., str]


def event(
    match_id: str, *parts: tuple[str, float, float, float], cause: Cause = Cause.MATCH
) -> RatingUpdated:
    """An event with (player, before, change, after) for each player."""
    players = tuple(
        PlayerUpdate(player=name, before=before, change=change, after=after, sequence=1)
        for name, before, change, after in parts
    )
    return RatingUpdated(
        cause=cause,
        match_id=match_id,
        ladder="x",
        system="backgammon",
        rules="1.3.1",
        finished_at=1_700_000_000_000,
        rated_at=1_700_000_000_000,
        players=players,
        id="1-1",
    )


def old(match_id: str, player: str, change: float, after: float) -> ReferenceChange:
    return ReferenceChange(match_id=match_id, player=player, change=change, after=after)


def compared(
    olds: list[ReferenceChange], events: list[RatingUpdated], tolerance: float = 0, top: int = 10
) -> Any:
    comparison = Comparison(tolerance=tolerance, top=top)
    for change in olds:
        comparison.add(change)
    for item in events:
        comparison.compare(item)
    return comparison.result()


def test_the_same_changes_are_equal() -> None:
    olds = [old("m-1", "a", 16, 1516), old("m-1", "b", -16, 1484)]
    result = compared(olds, [event("m-1", ("a", 1500, 16, 1516), ("b", 1500, -16, 1484))])
    assert result.same
    assert (result.equal, result.players, result.drifted, result.largest) == (2, 2, 0, [])


def test_what_only_one_has_is_counted_and_some_of_it_named() -> None:
    olds = [old(f"o-{n}", "a", 1, 1) for n in range(5)]
    result = compared(olds, [event(f"n-{n}", ("a", 0, 1, 1), ("b", 0, 1, 1)) for n in range(4)], top=3)
    assert not result.same
    assert (result.only_old, result.only_new, result.players) == (5, 8, 0)
    assert result.some_only_old == [("o-0", "a"), ("o-1", "a"), ("o-2", "a")]
    assert result.some_only_new == [("n-0", "a"), ("n-0", "b"), ("n-1", "a")]


def test_a_carried_difference_is_told_from_one_in_the_change() -> None:
    # Given a first match that is rated otherwise, and later ones that only follow from it
    olds = [old("m-1", "a", 16, 1516), old("m-2", "a", 10, 1526), old("m-3", "a", 11, 1537)]
    news = [("m-1", 1500, 20, 1520), ("m-2", 1520, 10, 1530), ("m-3", 1530, 10, 1540)]
    result = compared(
        olds, [event(name, ("a", before, change, after)) for name, before, change, after in news]
    )
    assert (result.equal, result.different, result.change_differs) == (0, 3, 2)
    assert [item.match_id for item in result.largest] == ["m-1", "m-3", "m-2"]
    first = result.largest[0]
    assert (first.old.change, first.new.before, first.new.change, first.ledger_id) == (16, 1500, 20, "1-1")
    (drift,) = result.drifts
    assert (drift.player, drift.old, drift.new, drift.drift, drift.since) == ("a", 1537, 1540, 3, "m-1")
    assert result.mean_drift == 3


def test_only_the_largest_differences_are_kept() -> None:
    olds = [old(f"m-{n}", f"p-{n}", 0, 0) for n in range(100)]
    news = [event(f"m-{n}", (f"p-{n}", 0, n * 7 % 100, n * 7 % 100)) for n in range(100)]
    result = compared(olds, news, top=4)
    assert [item.new.change for item in result.largest] == [99, 98, 97, 96]
    assert [drift.drift for drift in result.drifts] == [99, 98, 97, 96]
    assert (result.different, result.drifted, result.equal) == (99, 99, 1)
    assert compared(olds, news, top=0).largest == []


def test_figures_within_the_tolerance_are_equal() -> None:
    olds, news = [old("m-1", "a", 16.0, 1516.0)], [event("m-1", ("a", 1500.0, 16.4, 1516.4))]
    assert compared(olds, news, tolerance=0.5).same
    assert not compared(olds, news, tolerance=0.3).same


def test_events_of_other_causes_do_not_count() -> None:
    others = [event("m-1", ("a", 0, 5, 5), cause=cause) for cause in Cause if cause is not Cause.MATCH]
    assert compared([], others).same


def test_a_change_that_is_there_twice_is_refused() -> None:
    comparison = Comparison(tolerance=0, top=1)
    comparison.add(old("m-1", "a", 1, 1))
    with pytest.raises(InvalidLine, match="m-1 is there twice"):
        comparison.add(old("m-1", "a", 2, 2))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[]", "[] is not a JSON object"),
        (b'{"match_id": "m", "player": "a", "change": 1}', "after: it is required"),
        (b'{"match_id": "", "player": "a", "change": 1, "after": 2}', 'match_id: "" is not allowed'),
        (b'{"match_id": "m", "player": "a", "change": true, "after": 2}', "change: true is not allowed"),
        (b'{"match_id": "m", "player": "a", "change": NaN, "after": 2}', "change"),
    ],
)
def test_lines_that_are_wrong(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidLine) as caught:
        read_reference_change(raw)
    assert str(caught.value).startswith(problem)


def test_entries_that_are_no_events() -> None:
    assert parse_event("1-1", b"{") is None


def changes(*others: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"match_id": "m-1", "player": "ada", "change": 16, "after": 1516},
        {"match_id": "m-1", "player": "bob", "change": -16, "after": 1484},
        *others,
    ]


def test_the_command_with_the_ladders_own_ledger(site: Any, call: Cli, players: Players) -> None:
    site.rate(site.match("m-1"), site.match("m-2", cube=2))
    same = changes(
        {"match_id": "m-2", "player": "ada", "change": 18, "after": 1534},
        {"match_id": "m-2", "player": "bob", "change": -18, "after": 1466, "email": "ignored"},
    )
    result = call("compare", players(*same), "--authoritative")
    assert (result.code, result.err) == (0, ""), result.out
    assert result.out == (
        f"The old rater and {site.ladder}, change by change (two to a match)\n"
        "  equal      4\n"
        "  different  0\n"
        "  only old   0\n"
        "  only new   0\n"
        "\n"
        "Players with matches that both rated: 2, drifted: 0\n"
    )
    other = changes({"match_id": "m-2", "player": "ada", "before": 1516, "change": 16, "after": 1532})
    result = call("compare", players(*other), "--authoritative", "--json")
    assert result.code == 1
    assert result.err == "match-ratings: the raters differ: 1 different, 0 only old, 1 only new\n"
    found = result.json
    assert (found["equal"], found["different"], found["only_new"], found["only_old"]) == (2, 1, 1, 0)
    assert found["largest"][0]["old"]["before"] == 1516
    assert found["largest"][0]["new"]["k"] == 32
    assert found["drifts"][0] == {"player": "ada", "old": 1532, "new": 1534, "drift": 2, "since": "m-2"}
    # The shadow has nothing at all.
    assert call("compare", players(*other), "--json").json["only_old"] == 3


def test_only_matches_of_some_time(site: Any, call: Cli, players: Players) -> None:
    earlier = now_ms() - 3 * DAY
    site.rate(site.match("m-1"), site.match("m-0", finished_at=earlier))
    before = {"match_id": "m-9", "player": "ada", "change": 1, "after": 1, "finished_at": earlier}
    file = players(*changes(before))
    result = call("compare", file, "--authoritative", "--since", "2d", "--json").json
    assert (result["equal"], result["only_old"], result["only_new"]) == (2, 0, 0)
    result = call("compare", file, "--authoritative", "--until", "2d", "--json").json
    assert (result["equal"], result["only_old"], result["only_new"]) == (0, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--since", "yesterday"], '--since: "yesterday" is not allowed'),
        (["--tolerance", "-1"], "--tolerance: -1 is not allowed; use 0 to 1000 points"),
        (["--tolerance", "nan"], "--tolerance: nan is not allowed"),
        (["--top", "-1"], '--top: "-1" is not allowed'),
        (["--ladder", "none"], "--ladder: "),
    ],
)
def test_wrong_options(site: Any, call: Cli, players: Players, arguments: list[str], problem: str) -> None:
    result = call("compare", players(), *arguments)
    assert result.code == 2
    assert result.err.startswith(f"match-ratings: {problem}") and result.err.count("\n") == 1


def test_wrong_lines_are_named(site: Any, call: Cli, players: Players) -> None:
    result = call("compare", players(*changes(), b"", changes()[0], {"match_id": "m-3"}))
    assert result.code == 2
    assert result.err == (
        "line 4: match_id: this player's change by m-1 is there twice\n"
        "line 5: player: it is required\n"
        "match-ratings: FILE: 2 of 4 lines are wrong; nothing was compared\n"
    )
