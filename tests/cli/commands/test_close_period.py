"""The command `close-period`: options, output and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker.rating import Fide
from tests.support.clock import DAY, month_start
from tests.support.processes import Ended, command, config_file
from tests.support.rounds import Rounds


@pytest.fixture
async def rounds(redis: Redis, ladder: str) -> Rounds:
    """A ladder with a game in a month that is over, and one in this month."""
    found = Rounds(redis, ladder, Fide())
    await found.play("m1", ("ada", "bob"), at=month_start(1) - DAY)
    await found.rate()
    await found.play("m2", ("cid", "dan"))
    await found.rate()
    return found


@pytest.fixture
def call(server: Endpoint, ladder: str, tmp_path: Path) -> Callable[..., Ended]:
    config = config_file(tmp_path / "ladders.toml", ladder, system="fide")
    return lambda *arguments: command("close-period", *arguments, url=server.url, config=config)


async def threaded(call: Any, *arguments: str) -> Ended:
    return await asyncio.to_thread(call, *arguments)


async def test_a_dry_run_shows_what_is_then_done(rounds: Rounds, call: Any) -> None:
    shown = await threaded(call, "--dry-run")
    assert shown.returncode == 0 and not shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[0] == ["before", "change", "after", "K", "games", "period", "ended", "player"]
    assert {(*tuple(row[:5]), row[-1]) for row in rows[1:3]} == {
        ("1500", "+20", "1520", "40", "1", "ada"),
        ("1500", "-20", "1480", "40", "1", "bob"),
    }
    assert "2 players' periods that ended by" in shown.stdout and "would be closed" in shown.stdout
    assert len(await rounds.events()) == 2
    done = await threaded(call)
    assert done.returncode == 0 and "2 players' periods" in done.stdout
    assert len(await rounds.events()) == 4 and (await rounds.state("ada")).rating == 1520
    again = await threaded(call)
    assert "0 players' periods" in again.stdout


async def test_until_and_early(rounds: Rounds, call: Any) -> None:
    before = await threaded(call, "--until", str(month_start(1) - 1))
    assert "0 players' periods" in before.stdout
    by_then = await threaded(call, "--until", str(month_start(1)), "--json")
    assert {item["player"] for item in by_then.json_lines} == {"ada", "bob"}
    assert by_then.json_lines[0]["ended"] == month_start(1)
    early = await threaded(call, "--early", "--json")
    assert {item["player"] for item in early.json_lines} == {"cid", "dan"}
    assert (await rounds.state("cid")).rating == 1520
    # A game of the same month goes into the next.
    await rounds.play("m3", ("cid", "dan"))
    await rounds.rate()
    assert (await rounds.state("cid")).rating == 1520
    assert len((await threaded(call, "--early", "--json")).json_lines) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--until", "yesterday"],
            '--until: "yesterday" is not allowed; use a time such as 2026-11-29T12:00:00Z',
        ),
        (["--until", "2099-01-01T00:00:00Z"], "--until: 2099-01-01 00:00:00Z has not come yet; --early ends"),
        (["--until", "1790000000000", "--early"], "--early: it makes no sense with --until"),
    ],
)
def test_wrong_input(call: Any, arguments: list[str], words: str) -> None:
    result = call(*arguments)
    assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1


async def test_early_waits_for_the_inbox(rounds: Rounds, call: Any) -> None:
    await rounds.play("m3", ("ada", "bob"))
    refused = await threaded(call, "--early")
    assert refused.returncode == 2 and "--early: messages wait in the inbox" in refused.stderr
    noted = await threaded(call)
    assert noted.returncode == 0 and "messages wait in the inbox" in noted.stderr


def test_a_ladder_that_is_rated_by_game_has_none(server: Endpoint, ladder: str, tmp_path: Path) -> None:
    config = config_file(tmp_path / "ladders.toml", ladder, system="glicko2")
    result = command("close-period", url=server.url, config=config)
    assert result.returncode == 0 and "is rated by game (glicko2)" in result.stderr


async def test_the_end_of_a_period_can_be_explained(
    rounds: Rounds, server: Endpoint, ladder: str, tmp_path: Path
) -> None:
    await rounds.close()
    config = config_file(tmp_path / "x.toml", ladder, system="fide", k=10)  # adopted is k by the rules

    def run(*arguments: str) -> Ended:
        return command(*arguments, url=server.url, config=config)

    shown = await asyncio.to_thread(run, "player", "ada")
    rows = [line.split() for line in shown.stdout.splitlines()]
    ledger_id = next(row[-1] for row in rows if "period" in row[1:])
    explained = await asyncio.to_thread(run, "explain", ledger_id)
    assert explained.returncode == 0, explained.stderr
    assert "40 x 1 games = 40 <= 700" in explained.stdout and "games of ada  m1" in explained.stdout
    assert "the same figures" in explained.stdout
    found = (await asyncio.to_thread(run, "explain", ledger_id, "--json")).json
    assert found["period_games"] == {"ada": ["m1"]} and found["differences"] == []
    unknown = await asyncio.to_thread(run, "explain", "1-1")
    assert unknown.returncode == 1
