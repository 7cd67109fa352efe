"""Lines of players: what each system takes, what it refuses and in which words."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from match_ratings_worker.migration import InvalidLine, PlayerReader, PlayerRecord
from match_ratings_worker.migration.read_player_files import ParsedLine, json_lines
from match_ratings_worker.rating import SYSTEMS, Backgammon, Fide, Glicko2, RatingSystem, State
from match_ratings_worker.text_lines import LONGEST_LINE
from tests.support.clock import DAY

NOW = 1_790_000_000_000
GAME = {"match_id": "m-1", "finished_at": NOW - DAY}


def read(system: RatingSystem | None = None, **other: Any) -> PlayerRecord:
    line = {"player": "ada", "rating": 1612, "games": 230, **other}
    return PlayerReader(system or Backgammon(), NOW).json(json.dumps(line).encode())


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_least_that_every_system_needs(name: str) -> None:
    system = SYSTEMS[name]()
    record = read(system)
    assert record.state == State(1612, 230, 0, system.initial().extra)
    assert type(record.state.rating) is (int if system.integer_ratings else float)
    assert record.recent == {}


def test_the_last_game_follows_from_the_recent_games() -> None:
    assert read(recent_games=[GAME]).state.last_game == NOW - DAY
    assert read(recent_games=[GAME], last_game="2026-09-21T12:00:00Z").state.last_game == 1_789_992_000_000
    assert read(last_game=None).state.last_game == 0


def test_whole_numbers_may_be_written_as_decimals_or_texts() -> None:
    assert read(rating=1612.0, games="230").state[:2] == (1612, 230)


def test_the_digest_stands_for_the_content() -> None:
    known = read(recent_games=[GAME, {**GAME, "match_id": "m-2"}])
    same = read(recent_games=[{"finished_at": "2026-09-20T14:13:20Z", "match_id": "m-2", "cube": 2}, GAME])
    assert known == same
    others = (
        read(rating=1613),
        read(games=231),
        read(last_game=NOW),
        read(recent_games=[GAME]),
        read(player="eve"),
        read(Glicko2(), rd=50),
        read(Glicko2(), rd=51),
    )
    assert len({record.digest for record in (known, *others)}) == 8


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            {"player": ""},
            'player: "" is not allowed: 1-128 characters without control characters are allowed',
        ),
        ({"player": "a\nb"}, 'player: "a\\nb" is not allowed: 1-128 characters'),
        ({"player": 7}, "player: 7 is not allowed"),
        ({"rating": None}, "rating: null is not allowed"),
        ({"rating": True}, "rating: true is not allowed: must be a number"),
        ({"rating": 1612.5}, "rating: 1612.5 is not allowed: input should be a valid integer"),
        ({"rating": 1e9}, "rating: 1000000000.0 is not allowed: input should be less than or equal to"),
        ({"games": -1}, "games: -1 is not allowed: input should be greater than or equal to 0"),
        ({"last_game": 1_790_000_000}, "last_game: 1790000000 is not allowed: looks like seconds"),
        ({"last_game": "2026-01-01T00:00:00"}, 'last_game: "2026-01-01T00:00:00" is not allowed'),
        ({"last_game": NOW + DAY}, f"last_game: {NOW + DAY} is ahead of the server's clock"),
        ({"recent_games": [{**GAME, "finished_at": NOW + DAY}]}, f"recent_games: {NOW + DAY} is ahead"),
        ({"recent_games": [GAME, GAME]}, "recent_games: a match id is there twice"),
        ({"recent_games": [{"match_id": "m-1"}]}, "recent_games.0.finished_at: it is required"),
        ({"recent_games": [GAME], "games": 0}, "games: 0 is less than the 1 games in recent_games"),
        ({"recent_games": [GAME], "last_game": NOW - 2 * DAY}, f"last_game: {NOW - 2 * DAY} is before the"),
        ({"rd": 50}, "rd: there is no field of this name; this system knows player, rating, games, last_g"),
    ],
)
def test_what_is_refused(other: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidLine) as caught:
        read(**other)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("system", "other", "problem"),
    [
        (Glicko2(), {"rd": -3}, "rd: -3 is not allowed"),
        (Glicko2(), {"rd": "NaN"}, 'rd: "NaN" is not allowed'),
        (Glicko2(), {"volatility": 2}, "volatility: 2 is not allowed"),
        (Glicko2(), {"rating": "Infinity"}, 'rating: "Infinity" is not allowed'),
        (Fide(), {"peak": 1.5}, "peak: 1.5 is not allowed: must be a whole number"),
        (Fide(), {"birth_year": 90}, "birth_year: 90 is not allowed: must be a year"),
        (Fide(), {"period": 202613, "period_games": 1}, "period: 202613 is not allowed: must be a month"),
    ],
)
def test_fields_of_a_system_that_are_refused(
    system: RatingSystem, other: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidLine) as caught:
        read(system, **other)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"7", "7 is not a JSON object"),
        (b"\xff", "not JSON: it is not UTF-8 or nested too deep"),
        (b'{"player": "\xff"}', "not JSON"),
        (b"[" * 5000, "not JSON"),
    ],
)
def test_lines_that_are_no_objects(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidLine) as caught:
        PlayerReader(Backgammon(), NOW).json(raw)
    assert str(caught.value).startswith(problem)


def test_lines_are_numbered_and_long_ones_told() -> None:
    text = b"\xef\xbb\xbfone\r\n\n  \ntwo\n" + b"x" * (3 * LONGEST_LINE) + b"\nthree"
    lines = list(json_lines(io.BytesIO(text), bytes.decode))
    assert [(line.number, line.value) for line in lines] == [(1, "one"), (4, "two"), (5, None), (6, "three")]
    assert lines[2].problem == f"more than {LONGEST_LINE} bytes"
    assert lines[-1] == ParsedLine(6, "three", "", len(text))
