"""`calibrate` and `backtest`: from the ledger and from files, the plot, and what they refuse."""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker.rating import Backgammon, Glicko2
from tests.support.clock import now_ms
from tests.support.processes import Ended, command, config_file
from tests.support.rounds import Rounds
from tests.support.synthetic_matches import matches

Call = Callable[..., Ended]


def lines(count: int, ladder: str, **options: Any) -> list[dict[str, Any]]:
    """Messages of synthetic matches that finished lately."""
    found = matches(count, **options)
    shift = now_ms() - 1000 - found[-1].finished_at
    return [
        {
            "match_id": item.match_id,
            "ladder": ladder,
            "players": item.players,
            "winner": {1.0: item.players[0], 0.0: item.players[1]}.get(item.score),
            "cube": item.cube,
            "length": item.length,
            "finished_at": item.finished_at + shift,
        }
        for item in found
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with matches of the ladder `club`."""
    path = tmp_path / "matches.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines(3000, "club", divisor=800, players=30)))
    return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Calls the command line for the ladder `club`, without a Redis."""
    config = config_file(tmp_path / "club.toml", "club")
    return lambda *arguments: command(*arguments, config=config, url="redis://127.0.0.1:1")


def test_calibrating_a_file_of_matches(call: Call, file: Path) -> None:
    shown = call("calibrate", str(file), "--min-games", "5", "--width", "100")
    assert shown.returncode == 0 and not shown.stderr
    assert "rated again from the start (backgammon)" in shown.stdout
    assert (
        "0-100" in shown.stdout
        and "log loss" in shown.stdout
        and "divisor now             1200" in shown.stdout
    )
    found = call("calibrate", str(file), "--json").json
    assert found["matches"] == 3000 == sum(item["matches"] for item in found["bins"])
    assert found["divisor"] == 1200 and found["anew"]
    assert found["fit"]["low"] < found["fit"]["divisor"] < found["fit"]["high"]
    assert 0.6 < found["log_loss"] < 0.7
    lately = call("calibrate", str(file), "--since", "1d", "--json").json
    assert 1400 < lately["matches"] < 1500
    assert call("calibrate", str(file), "--until", "1d", "--json").json["matches"] == 3000 - lately["matches"]
    other = call("calibrate", str(file), "--rules", "1.2.0", "--json").json
    assert other["divisor"] == 800 and other["log_loss"] != found["log_loss"]


@pytest.mark.parametrize(("name", "head"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_the_plot(call: Call, file: Path, tmp_path: Path, name: str, head: bytes) -> None:
    plot = tmp_path / name
    shown = call("calibrate", str(file), "--plot", str(plot))
    assert shown.returncode == 0 and f"plot: {plot}" in shown.stdout
    assert plot.read_bytes().startswith(head)
    if name.endswith("svg"):
        assert plot.stat().st_size > 5000


def test_without_matplotlib_a_sentence_says_what_to_install(
    call: Call, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else real(name, *rest)
    )
    real_import = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        assert not name.startswith("matplotlib")
        return real_import(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    refused = call("calibrate", str(file), "--plot", "x.png")
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        "matplotlib is not installed; it comes with the extra: pip install 'match-ratings[plots]'\n"
    )
    assert call("calibrate", str(file)).returncode == 0


def test_a_backtest_compares_two_systems(call: Call, file: Path) -> None:
    shown = call("backtest", str(file), "--system", "glicko2")
    assert shown.returncode == 0 and not shown.stderr
    for words in ("now: backgammon", "tried: glicko2", "log loss", "5 % to 95 %", "swing in a week, largest"):
        assert words in shown.stdout
    found = call(
        "backtest", str(file), "--set", "divisor=400", "--set", "k=64", "--most-active", "3", "--json"
    ).json
    assert found["tried"]["settings"]["divisor"] == 400 and found["tried"]["settings"]["k"] == 64
    assert found["tried"]["spread"]["deviation"] > 0 and found["tried"]["swing"]["players"] == 3
    change = found["tried"]["quality"]["log_loss"] - found["ladders_settings"]["quality"]["log_loss"]
    assert found["log_loss_change"] == pytest.approx(change)
    low, high = found["log_loss_change_interval"]
    assert low < change < high
    fibs = call("backtest", str(file), "--system", "fibs", "--set", "experience=before", "--json").json
    assert fibs["tried"]["settings"]["experience"] == "before"


def test_a_backtest_with_identical_settings_finds_no_difference(call: Call, file: Path) -> None:
    shown = call("backtest", str(file), "--system", "backgammon")
    assert (
        "log loss changes by +0.00000 +- 0.00000 (95 %): no difference that these matches show"
        in shown.stdout
    )
    found = call("backtest", str(file), "--set", "divisor=1200", "--json").json
    assert found["tried"]["spread"] == found["ladders_settings"]["spread"]
    assert found["tried"]["swing"] == found["ladders_settings"]["swing"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["backtest", "FILE"], 2, "--system, --set or --rules: one of them is required"),
        (["backtest", "FILE", "--set", "divisor=0"], 2, "--set: divisor: 0 is not allowed"),
        (
            ["backtest", "FILE", "--set", "divisor=9", "--rules", "1.2.0"],
            2,
            "--rules: it makes no sense with",
        ),
        (
            ["backtest", "FILE", "--set", "nosuch=1"],
            2,
            "--set: nosuch is not a setting of backgammon; it has",
        ),
        (["backtest", "FILE", "--system", "elo"], 2, '--system: "elo" is not allowed; use one of'),
        (["backtest", "FILE", "--rules", "9"], 2, '--rules: "9" is not allowed; backgammon has 1.0,'),
        (["backtest", "FILE", "--system", "fide", "--min-games", "9999"], 1, "no matches that both predict"),
        (
            ["backtest", "FILE", "--system", "fide", "--most-active", "0"],
            2,
            '--most-active: "0" is not allowed',
        ),
        (["calibrate", "FILE", "--min-games", "9999"], 1, "there are no matches to evaluate"),
        (["calibrate", "FILE", "--width", "0"], 2, '--width: "0" is not allowed; use a number from 1'),
        (["calibrate", "FILE", "--since", "ever"], 2, '--since: "ever" is not allowed; use a time'),
        (
            ["calibrate", "FILE", "--plot", "x.gif"],
            2,
            '--plot: "x.gif" is not allowed; the file\'s name must end',
        ),
        (["calibrate", "/nosuch"], 2, 'FILE: "/nosuch" cannot be read'),
        (["calibrate", "FILE", "--plot", "/nosuch/x.png"], 1, "--plot: /nosuch/x.png: No such file"),
        (["calibrate"], 3, "Redis at 127.0.0.1:1 is not reachable"),
    ],
)
def test_what_they_refuse(call: Call, file: Path, arguments: list[str], code: int, words: str) -> None:
    result = call(*(str(file) if word == "FILE" else word for word in arguments))
    assert result.returncode == code and words in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_lines_are_named_and_other_ladders_left_out(call: Call, tmp_path: Path) -> None:
    good = lines(30, "club", divisor=800, players=5)
    path = tmp_path / "mixed.jsonl"
    path.write_text(
        "\n".join([json.dumps(line) for line in good] + ['{"match_id": 3}', "[]", '{"type": "x"}'])
    )
    refused = call("calibrate", str(path))
    assert refused.returncode == 2
    assert "line 31: " in refused.stderr and "line 32: it is not a JSON object" in refused.stderr
    assert "line 33: type: 'x' is not allowed" in refused.stderr
    assert "FILE: 3 of 33 lines are wrong; nothing was computed" in refused.stderr
    elsewhere = [{**line, "ladder": "other"} for line in good[:4]]
    boosted = [{**good[0], "match_id": "b", "mode": "boosted"}]
    path.write_text("\n".join(json.dumps(line) for line in good + elsewhere + boosted))
    shown = call("calibrate", str(path), "--json")
    assert shown.json["matches"] == 30
    assert shown.stderr == "4 lines are of other ladders and were left out\n"


async def rated(redis: Redis, ladder: str, count: int) -> Rounds:
    rounds = Rounds(redis, ladder, Backgammon())
    for line in lines(count, ladder, divisor=800, players=12):
        await rounds.send(line)
    await rounds.rate()
    return rounds


async def test_the_ledger_is_read_as_it_was_rated(
    redis: Redis, server: Endpoint, ladder: str, tmp_path: Path
) -> None:
    rounds = await rated(redis, ladder, 400)
    config = config_file(tmp_path / "x.toml", ladder)

    def call(*arguments: str) -> Ended:
        return command(*arguments, url=server.url, config=config)

    # Given a ledger, when it is calibrated, the predictions are those of the events ...
    found = (await asyncio.to_thread(call, "calibrate", "--json")).json
    assert found["matches"] == 400 and not found["anew"]
    # ... and those of rating it again from the start.
    again = (await asyncio.to_thread(call, "calibrate", "--set", "start=1500", "--json")).json
    assert again == found
    file = tmp_path / "events.jsonl"
    file.write_text("".join(event.model_dump_json() + "\n" for event in await rounds.events()))
    assert (await asyncio.to_thread(call, "calibrate", str(file), "--json")).json == found
    # A backtest against the ladder's own settings ends with the ladder's own ratings.
    test = (
        await asyncio.to_thread(call, "backtest", "--system", "glicko2", "--min-games", "0", "--json")
    ).json
    ratings = sorted((await rounds.listed()).values())
    assert test["ladders_settings"]["spread"]["mean"] == pytest.approx(sum(ratings) / len(ratings))
    assert test["tried"]["settings"] == Glicko2().model_dump(mode="json")
    # What came before the ledger begins is said.
    await redis.xtrim(rounds.keys.outbox, maxlen=100, approximate=False)
    trimmed = await asyncio.to_thread(call, "calibrate", "--json")
    assert trimmed.json["matches"] == 100
    assert "12 players were rated before what is kept of the ledger begins" in trimmed.stderr


def test_a_hundred_thousand_matches_would_take_less_than_thirty_seconds(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines(10_000, "club", divisor=1200, players=500))
    begun = time.process_time()
    assert call("backtest", str(path), "--system", "glicko2", "--json").returncode == 0
    assert time.process_time() - begun < 3
