"""The calculators by themselves: inputs, files, output, and what they refuse. None of them needs Redis."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker.rating import SYSTEMS, Fibs, Game, Glicko2
from tests.support.clock import now_ms
from tests.support.processes import command, config_file
from tests.support.rounds import Rounds

PAPER = ("1400/30:1", "1550/100:0", "1700/300:0")


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_preview_with_every_outcome_and_its_explanation(name: str) -> None:
    about = ("preview", "--system", name, "--rating", "1600", "--opponent", "1500")
    rows = command(*about, "--json").json_lines
    system = SYSTEMS[name]()
    assert {row["result"] for row in rows} == {"win", "loss"} | ({"draw"} if system.draws else set())
    for row in rows:
        assert row["first"]["after"] == pytest.approx(row["first"]["before"] + row["first"]["change"])
        assert (row["cube"] is not None) == ("cube" in system.depends_on)
        assert (row["length"] is not None) == ("length" in system.depends_on)
    shown = command(*about)
    assert shown.returncode == 0 and "the player\n" in shown.stdout and "the opponent\n" in shown.stdout
    for result in {row["result"] for row in rows}:
        found = command(*about, "--explain", result, "--json").json
        steps = command(*about, "--explain", result).stdout
        assert all(step["formula"] in steps for step in found["steps"])
        change = next(row for row in rows if row["result"] == result)["first"]["change"]
        assert found["event"]["players"][0]["change"] == change


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_sum_of_games(name: str) -> None:
    game = "1500:1@5" if name == "fibs" else "1500:1"
    found = command("period", "--system", name, "--rating", "1500", game, game, "--json").json
    assert len(found["games"]) == 2 and found["after"] > 1500 and found["steps"]
    shown = command("period", "--system", name, "--rating", "1500", game, game)
    assert f"{name}: 2 games rated" in shown.stdout


def test_the_opponents_columns_are_from_the_opponents_side() -> None:
    out = command("preview", "--rating", "1500", "--opponent", "1300", "--cube", "1").stdout
    assert out.splitlines() == [
        "backgammon, rules 1.3.1: 1500 against 1300",
        "",
        "the player",
        "cube  expected   K  win  rating  loss  rating",
        "   1    0.5948  32  +13    1513   -19    1481",
        "",
        "the opponent",
        "cube  expected   K  win  rating  loss  rating",
        "   1    0.4052  32  +19    1319   -13    1287",
    ]


def test_several_opponents_stand_below_each_other() -> None:
    out = command("preview", "--system", "fide", "--rating", "1500", "--opponent", "1500,1400").stdout
    assert [line.split()[0] for line in out.splitlines()[4:6]] == ["1500", "1400"]


def test_a_ladders_settings_are_taken_from_its_configuration(tmp_path: Path) -> None:
    config = config_file(tmp_path / "x.toml", "club", system="fide", k=16, period="game")
    rows = command("preview", "--rating", "1500", "--opponent", "1500", "--json", config=config).json_lines
    assert {row["system"] for row in rows} == {"fide"} and rows[0]["first"]["change"] == 8


def test_an_idle_players_deviation_has_grown() -> None:
    about = ("preview", "--system", "glicko2", "--rating", "1500", "--opponent", "1500", "--rd", "60,60")
    event = command(*about, "--figure", "idle_days=100", "--explain", "win", "--json").json["event"]
    first, second = event["players"]
    assert first["figures"]["rd"] > 60 == second["figures"]["rd"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["preview"], "--rating or --player, and --opponent: two of them are required"),
        (["preview", "--rating", "1"], "two of them are required"),
        (["preview", "--rating", "1", "--player", "a", "--opponent", "2"], "two of them are required"),
        (["preview", "--rating", "high", "--opponent", "1"], '--rating: "high" is not allowed; use a number'),
        (["preview", "--rating", "1", "--opponent", "1,x"], '--opponent: "x" is not allowed; use a number'),
        (["preview", "--rating", "nan", "--opponent", "1"], '--rating: "nan" is not allowed'),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--cube", "3"],
            "cubes: 3 is not allowed; 1, 2, 4, 8",
        ),
        (["preview", "--rating", "1", "--opponent", "1", "--rd", "5"], '--rd: "rd" is not a figure'),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--figure", "sigma=3"],
            '--figure: "sigma" is not a figure of a player; backgammon has games, recent_games, idle_days',
        ),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--recent-games", "1,2,3"],
            '--recent-games: "1,2,3" is not allowed; use one number, or two',
        ),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--recent-games", "-1"],
            '--recent-games: "-1" is not allowed; use a whole number from 0',
        ),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--explain", "maybe"],
            '--explain: "maybe" is not allowed; use one of win, draw, loss',
        ),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--explain", "draw"],
            "winner: null is a draw, which backgammon does not have",
        ),
        (["preview", "--rating", "1", "--opponent", "1", "--at", "now"], '--at: "now" is not allowed; use'),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--k", "9"],
            "--set: k is not a setting of backgammon",
        ),
        (
            ["preview", "--rating", "1", "--opponent", "1", "--rules", "2.0"],
            '--rules: "2.0" is not allowed; backgammon has 1.0, 1.0.5, 1.2.0, 1.3.1',
        ),
        (
            ["preview", "--system", "fide", "--rating", "1", "--opponent", "1", "--rules", "2024-03"],
            "fide's rules follow from the date of a game, at that time 2025-10 (see --at)",
        ),
        (
            ["preview", "--system", "fide", "--rating", "1", "--opponent", "1", "--set", "k=0"],
            "--set: k: 0 is not allowed: input should be greater than or equal to 1",
        ),
        (
            ["preview", "--system", "fide", "--rating", "1", "--opponent", "1", "--set", "k"],
            '--set: "k" is not allowed; use NAME=VALUE',
        ),
        (
            ["preview", "--system", "elo", "--rating", "1", "--opponent", "1"],
            '--system: "elo" is not allowed; use one of backgammon, fide, fibs, glicko, glicko-periods',
        ),
        (
            ["preview", "--system", "fide", "--ladder", "x", "--rating", "1", "--opponent", "1"],
            "--system: it makes no sense with --ladder",
        ),
        (["preview", "--player", "a", "--opponent", "a"], "--opponent: it is the player"),
        (
            ["preview", "--player", "a", "--opponent", "b", "--rd", "3"],
            "--player: ratings and figures come from",
        ),
        (["period", "--rating", "1500"], "games: none are given; this system needs at least one"),
        (["period", "--system", "fide", "--rating", "1500"], "games: none are given"),
        (["period", "--rating", "1500", "1400"], 'GAME: "1400" is not allowed; use OPPONENT:SCORE'),
        (["period", "--rating", "1500", "1400:2"], 'GAME: score: "2" is not allowed; use 1, 0.5 or 0'),
        (["period", "--rating", "1500", "x:1"], 'GAME: opponent: "x" is not allowed; use a number'),
        (["period", "--system", "glicko", "--rating", "1500", "1/-3:1"], 'GAME: rd: "-3" is not allowed'),
        (
            ["period", "--system", "fibs", "--rating", "1500", "1500:1"],
            "length: None is not allowed; fibs does",
        ),
        (
            ["period", "--rating", "1", "1:1", "--figure", "games=1,2"],
            "--figure: a second number is not allowed",
        ),
        (["period", "--rating", "1500", "--file", "/nosuch"], '--file: "/nosuch" cannot be read'),
        (["performance", "1500", "--score", "2"], "score: 2 is not allowed; with 1 games it is 0 to 1"),
        (["performance", "x", "--score", "1"], 'OPPONENT: "x" is not allowed; use a whole number from 1'),
        (["performance", "1500", "--score", "0.3"], "score: 0.3 is not allowed"),
        (["systems", "elo"], 'NAME: "elo" is not allowed; use one of backgammon'),
    ],
)
def test_wrong_input_names_it_and_what_is_allowed(arguments: list[str], words: str) -> None:
    result = command(*arguments)
    assert result.returncode == 2 and not result.stdout
    assert words in result.stderr and result.stderr.count("\n") == 1
    assert result.stderr.startswith("match-ratings: ")


# Games from files.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("games.csv", "opponent,score,rd\n1400,1,30\n1550,0,100\n1700,loss,300\n"),
        ("games.csv", "\ufeffscore, rd, opponent\r\nwin, 30, 1400\r\n0,100,1550\r\n0.0,300,1700\r\n"),
        (
            "games.jsonl",
            '{"opponent": 1400, "score": 1, "rd": 30}\n\n{"opponent": 1550, "score": 0, "rd": 100}\n'
            '{"opponent": 1700, "score": "0", "rd": 300, "note": null}\n',
        ),
    ],
)
def test_games_from_a_file_are_those_of_the_arguments(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    about = ("period", "--system", "glicko", "--rating", "1500", "--rd", "200", "--json")
    by_file = command(*about, "--file", str(tmp_path / name)).json
    assert by_file == command(*about, *PAPER).json
    assert round(by_file["after"], 2) == 1464.11


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rating,score\n1400,1\n", '--file: the first line is "rating,score"; it must name the columns'),
        ("opponent,score\n1400,1\nx,1\n", 'line 3: opponent: "x" is not allowed'),
        ('{"opponent": 1400, "score": 3}\n', 'line 1: score: "3" is not allowed'),
        ('{"opponent": 1400, "score": 1}\n[1]\n', "--file: line 2 is not a JSON object"),
        ('{"opponent": 1400, "score": 1, "cube": 1.5}\n', 'line 1: cube: "1.5" is not allowed; use a whole'),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "games"
    file.write_text(text)
    result = command("period", "--rating", "1500", "--file", str(file))
    assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_one_after_another_counts_the_games_before() -> None:
    found = command(
        "period", "--rating", "1500", "--figure", "recent_games=49", "1500:1", "1500:1", "--json"
    ).json
    assert [game["k"] for game in found["games"]] == [32, 16]
    assert found["games"][0]["after"] == 1516 and not found["together"]


# From the ladder.


async def test_two_players_of_a_ladder(redis: Redis, server: Endpoint, ladder: str, tmp_path: Path) -> None:
    rounds = Rounds(redis, ladder, Glicko2(tau=0.5))
    for number in range(3):
        await rounds.play(f"m{number}", ("ada", "bob"))
    await rounds.rate()
    config = config_file(tmp_path / "x.toml", ladder, system="glicko2")  # but tau 0.5 is adopted

    def call(*arguments: str) -> Any:
        return command("preview", *arguments, "--json", url=server.url, config=config)

    found = await asyncio.to_thread(call, "--player", "ada", "--opponent", "new", "--at", "2099-01-01")
    assert found.stderr == f"player new is not known on ladder {ladder}; treated as a new player\n"
    state = await rounds.state("ada")
    row = found.json_lines[0]
    assert row["first"]["before"] == state.rating and row["second"]["before"] == 1500
    both = await asyncio.to_thread(call, "--player", "ada", "--opponent", "bob")
    game = Game(now_ms(), (1.0, 0.0))
    outcome = rounds.system.preview(state, await rounds.state("bob"), game)
    assert both.json_lines[0]["first"]["change"] == pytest.approx(outcome.sides[0].change, rel=1e-3)


# The systems.


def test_systems_lists_all_and_shows_one() -> None:
    out = command("systems").stdout.splitlines()
    assert [line.split()[0] for line in out] == ["system", *SYSTEMS]
    assert "period" in next(line for line in out if line.startswith("fide"))
    shown = command("systems", "fide").stdout
    assert "expectation" in shown and "table or curve" in shown and "2024-03, 2025-10" in shown
    documents = command("systems", "--json").json_lines
    assert [item["name"] for item in documents] == list(SYSTEMS)
    assert {item["name"]: item["by"] for item in documents} == {
        name: "period" if name in ("fide", "glicko-periods") else "game" for name in SYSTEMS
    }
    assert json.dumps(documents)
    assert Fibs().model_dump(mode="json") == {
        name: item["default"] for name, item in documents[2]["settings"].items()
    }
