"""Importing players: checked whole, written once, gone on with after a kill, and rated on from there."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from match_ratings import RatingUpdated
from match_ratings_worker.migration import Importer, PlayerReader
from match_ratings_worker.migration.player_records import MOST_GAMES
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import DAY, now_ms
from tests.support.command_line import Cli
from tests.support.migration import dump, events, old_players
from tests.support.topologies import cluster
from tests.support.waiting import eventually, until

Players = Callable[..., str]

ADA: dict[str, Any] = {"player": "ada", "rating": 1612, "games": 230}


def test_a_player_is_all_there(site: Any, call: Cli, players: Players) -> None:
    at = now_ms() - DAY
    games = [{"match_id": "old-1", "finished_at": at}, {"match_id": "old-2", "finished_at": at - 5}]
    result = call("import", players({**ADA, "recent_games": games}))
    assert (result.code, result.err) == (0, "")
    assert result.out == f"players of {site.ladder}: 1 imported\n"
    stored = site.redis.hgetall(site.keys.player("ada"))
    assert {name: stored[name] for name in (b"rating", b"sequence", b"games", b"last_game")} == {
        b"rating": b"1612",
        b"sequence": b"1",
        b"games": b"230",
        b"last_game": str(at).encode(),
    }
    assert site.redis.zscore(site.keys.leaderboard, "ada") == 1612
    assert site.redis.zrange(site.keys.games("ada"), 0, -1, withscores=True) == [
        (b"old-2", at - 5),
        (b"old-1", at),
    ]
    assert 21 * DAY < site.redis.pttl(site.keys.games("ada")) <= 23 * DAY
    assert site.redis.get(site.keys.receipt("old-1")) == b"- imported"
    assert 14 * DAY < site.redis.pttl(site.keys.receipt("old-1")) < 15 * DAY
    assert site.redis.hget(site.keys.counts, "imported") == b"1"
    event = RatingUpdated.model_validate_json(site.redis.xrange(site.keys.outbox)[0][1][b"message"])
    assert event.cause == "import" and event.ladder == site.ladder and event.rules == "1.3.1"
    part = event.players[0]
    assert (part.player, part.before, part.change, part.after, part.sequence) == ("ada", 1500, 112, 1612, 1)
    assert part.figures == {"games_after": 230, "last_game_after": at}
    assert part.brought == {"old-1": at, "old-2": at - 5}


def test_the_same_again_changes_nothing(site: Any, call: Cli, players: Players) -> None:
    file = players(*old_players(300, now_ms()))
    assert call("import", file).code == 0
    before = dump(site.redis, site.keys)
    result = call("import", file)
    assert result.code == 0
    assert result.out == f"players of {site.ladder}: 0 imported, 300 unchanged; nothing has changed\n"
    assert dump(site.redis, site.keys) == before
    # Nor does it when matches were rated meanwhile.
    site.rate(site.match("m-1", ("player-1", "player-2")))
    before = dump(site.redis, site.keys)
    assert call("import", file).out.endswith("nothing has changed\n")
    assert dump(site.redis, site.keys) == before


def test_a_player_with_another_standing_is_left_out_unless_replaced(
    site: Any, call: Cli, players: Players
) -> None:
    site.rate(site.match("m-1"))
    file = players(ADA, {"player": "eve", "rating": 1400, "games": 3})
    result = call("import", file)
    assert result.code == 1
    assert result.out == f"players of {site.ladder}: 1 imported, 1 refused\n"
    assert result.err == (
        'line 1: player "ada" has rating 1516 after 1 changes here\n'
        "match-ratings: 1 players already have a different rating and were skipped; --replace overwrites\n"
    )
    assert site.redis.hget(site.keys.player("ada"), "rating") == b"1516"
    again = call("import", file, "--json")
    assert again.code == 1
    assert again.json["refused"] == [{"line": 1, "player": "ada", "rating": 1516, "sequence": 1}]

    result = call("import", file, "--replace")
    assert (result.code, result.out) == (
        0,
        f"players of {site.ladder}: 0 imported, 1 replaced, 1 unchanged\n",
    )
    stored = site.redis.hgetall(site.keys.player("ada"))
    assert (stored[b"rating"], stored[b"sequence"], stored[b"games"]) == (b"1612", b"2", b"230")
    assert not site.redis.exists(site.keys.games("ada"))  # the file brings no games
    last = events(site.redis, site.keys.outbox)[-1]["players"][0]
    assert (last["before"], last["change"], last["after"], last["sequence"]) == (1516, 96, 1612, 2)
    # And again: nothing.
    assert call("import", file, "--replace").out.endswith("nothing has changed\n")


def test_a_dry_run_writes_nothing(site: Any, call: Cli, players: Players) -> None:
    site.rate(site.match("m-1"))
    before = dump(site.redis, site.keys, without=())
    result = call("import", players(ADA, {**ADA, "player": "eve"}), "--dry-run")
    assert result.code == 1
    assert result.out == f"players of {site.ladder}: would be 1 imported, 1 refused\n"
    assert dump(site.redis, site.keys, without=()) == before
    result = call("import", players(ADA), "--dry-run", "--replace", "--json")
    assert (result.code, result.json["replaced"], result.json["dry_run"]) == (0, 1, True)
    assert dump(site.redis, site.keys, without=()) == before
    # Not even the settings of a ladder that nobody has rated yet.
    other = call("import", players(ADA), "--dry-run", "--shadow")
    assert other.out == f"players of {site.ladder}'s shadow: would be 1 imported\n"
    assert not list(site.redis.scan_iter(f"ratings:{{{site.ladder}}}:shadow:*", count=1000))


def test_csv_and_standard_input_bring_the_same(site: Any, call: Cli, players: Players) -> None:
    rows = old_players(50, now_ms())
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["rating", "player", "games", "recent_games", "last_game"])
    for row in rows:
        recent = json.dumps(row["recent_games"]) if row["recent_games"] else ""
        writer.writerow([row["rating"], row["player"], row["games"], recent, ""])
    file = players(b"\xef\xbb\xbf" + text.getvalue().encode(), name="players.csv")
    assert call("import", file).out == f"players of {site.ladder}: 50 imported\n"
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    assert call("import", "-", stdin=lines).out.endswith("50 unchanged; nothing has changed\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: there is no column player"),
        ("player,rating\na,1500\n", "line 1: there is no column games"),
        (
            "player,rating,games,email\n",
            'line 1: "email" is not a column of this system\'s players; known are player, rating, games, '
            "last_game, recent_games",
        ),
        ("player,rating,games,games\n", "line 1: there are two columns games"),
        ("player,rating,games\nada,1500\n", "line 2: 2 cells; the titles are 3"),
        ("player,rating,games\n\nada,,3\n", "line 3: rating: it is required"),
        ('player,rating,games\nada,1500,"3\n', "line 3: not CSV: unexpected end of data"),
        (
            "player,rating,games,recent_games\nada,1500,3,m-1\n",
            'line 2: recent_games: "m-1" is not JSON; use [{match_id: ..., finished_at: ...}, ...] with '
            "names and texts in double quotes",
        ),
    ],
)
def test_csv_that_is_wrong(site: Any, call: Cli, players: Players, text: str, problem: str) -> None:
    result = call("import", players(text.encode(), name="players.CSV"))
    assert result.code == 2
    assert result.err == f"match-ratings: FILE: {problem}; nothing was written\n"


def test_wrong_lines_are_named_and_nothing_is_written(site: Any, call: Cli, players: Players) -> None:
    right = [{**ADA, "player": f"p-{number}"} for number in range(30)]
    wrong = [{**ADA, "player": f"q-{number}", "rating": "x"} for number in range(29)]
    result = call("import", players(*right, b"", *wrong, right[0]))
    assert result.code == 2 and not result.out
    lines = result.err.splitlines()
    assert len(lines) == 21
    assert lines[0] == (
        'line 32: rating: "x" is not allowed: input should be a valid integer, unable to parse string as an '
        "integer"
    )
    assert lines[-1] == "match-ratings: FILE: 30 of 60 lines are wrong; nothing was written"
    assert not list(site.redis.scan_iter(f"ratings:{{{site.ladder}}}:*", count=1000))
    twice = call("import", players(ADA, {**ADA, "rating": 1}))
    assert twice.err == 'match-ratings: FILE: line 2: player: "ada" is on line 1 too; nothing was written\n'


def test_a_file_that_is_not_there(site: Any, call: Cli, tmp_path: Path) -> None:
    result = call("import", str(tmp_path / "none"))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.endswith("cannot be read: No such file or directory\n")
    assert call("import", str(tmp_path)).code == 2


def test_other_settings_are_not_written_over(site: Any, call: Cli, players: Players) -> None:
    assert call("import", players({**ADA, "player": "bob"})).code == 0
    site.config.write_text(f"[ladders.{site.ladder}]\nstart = 1000\n")
    for options in ([], ["--dry-run"]):
        result = call("import", players(ADA), *options)
        assert result.code == 2
        assert result.err == (
            f"match-ratings: ladder {site.ladder} is rated by other settings than these; see match-ratings "
            "ladder diff; nothing was written\n"
        )
    assert not site.redis.exists(site.keys.player("ada"))


def test_a_key_that_holds_something_else_stops_it(site: Any, call: Cli, players: Players) -> None:
    site.redis.set(site.keys.games("ada"), "x")
    recent = [{"match_id": "old-1", "finished_at": now_ms()}]
    result = call("import", players({**ADA, "recent_games": recent}))
    assert result.code == 3 and "player ada: " in result.err and "run it again" in result.err
    assert not site.redis.exists(site.keys.player("ada"), site.keys.receipt("old-1"), site.keys.outbox)
    # A receipt that is none is left as it is.
    site.redis.delete(site.keys.games("ada"))
    site.redis.rpush(site.keys.receipt("old-1"), "x")
    assert call("import", players({**ADA, "recent_games": recent})).code == 0
    assert site.redis.xlen(site.keys.outbox) == 1


def test_the_systems_own_fields(site: Any, call: Cli, players: Players) -> None:
    site.config.write_text(f'[ladders.{site.ladder}]\nsystem = "glicko2"\n')
    known = {"player": "ada", "rating": 1612.5, "games": 230, "rd": 61.25, "volatility": 0.06}
    result = call("import", players(known, {"player": "new", "rating": 1400, "games": 0, "rd": None}))
    assert result.code == 0, result.err
    ada, new = (site.redis.hgetall(site.keys.player(name)) for name in ("ada", "new"))
    assert (ada[b"rating"], ada[b"rd"], ada[b"volatility"]) == (b"1612.5", b"61.25", b"0.06")
    assert (new[b"rating"], new[b"rd"], new[b"volatility"]) == (b"1400.0", b"500.0", b"0.09")
    assert site.redis.zrange(site.keys.leaderboard, 0, -1) == [b"ada"]  # the other's RD is too high for it
    figures = events(site.redis, site.keys.outbox)[0]["players"][0]["figures"]
    assert figures == {"games_after": 230, "last_game_after": 0, "rd_after": 61.25, "volatility_after": 0.06}


def test_an_open_rating_period_comes_along(site: Any, call: Cli, players: Players) -> None:
    site.config.write_text(f'[ladders.{site.ladder}]\nsystem = "fide"\n')
    period = {"period": 202610, "period_games": 2, "period_gain": 500_000_000, "period_opponents": 3600}
    ada = {"player": "ada", "rating": 1612, "games": 230, "birth_year": 1990, "peak": 1700, **period}
    assert (
        call("import", players({**ada, "period_halves": 3}, {"player": "b", "rating": 0, "games": 0})).code
        == 0
    )
    (name, closes_at), *rest = site.redis.zrange(site.keys.open_periods, 0, -1, withscores=True)
    assert (name, rest) == (b"ada", [])
    assert time.gmtime(closes_at / 1000)[:3] == (2026, 11, 1)
    assert site.redis.zrange(site.keys.leaderboard, 0, -1) == [b"ada"]  # b is unrated
    assert call("import", players({"player": "ada", "rating": 1612, "games": 230}), "--replace").code == 0
    assert not site.redis.exists(site.keys.open_periods)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_step_and_run_again(
    site: Any, call: Cli, players: Players, killed: Callable[..., bool], when: str
) -> None:
    # Given players for several script calls, some of whom have a standing that is to be replaced
    site.rate(*(site.match(f"m-{n}", (f"player-{n}", f"player-{n + 100}")) for n in range(100)))
    file = players(*old_players(330, now_ms()))
    # When the import is killed at one call after another, and run to its end then
    number = 1
    while killed(number, when, "import_players", "import", file, "--replace"):
        number += 2
    assert number > 3
    assert call("import", file, "--replace").out.endswith("nothing has changed\n")
    # Then everything is as if it had never been killed: no player twice, no event twice, none missing
    imported = [event for event in events(site.redis, site.keys.outbox) if event["cause"] == "import"]
    assert len(imported) == 330 == len({event["players"][0]["player"] for event in imported})
    for event in imported:
        part = event["players"][0]
        had = part["player"].removeprefix("player-").isdecimal() and int(part["player"][7:]) < 200
        assert part["sequence"] == (2 if had else 1)
        assert site.redis.hget(site.keys.player(part["player"]), "rating") == str(part["after"]).encode()
        assert site.redis.zscore(site.keys.leaderboard, part["player"]) == part["after"]
    assert site.redis.hget(site.keys.counts, "imported") == b"330"


def test_matches_that_are_in_the_ratings_are_not_rated_again(site: Any, call: Cli, players: Players) -> None:
    # Given matches that the old rater has rated, in the inbox as well: one not claimed, one claimed
    at = now_ms() - 60_000
    recent = [{"match_id": f"old-{n}", "finished_at": at} for n in (1, 2, 3)]
    site.send(site.match("old-1"), site.match("old-2", ("bob", "ada")))

    async def work(claims: int) -> None:
        async with connect(site.url) as redis:
            store = LadderStore(redis, site.ladder, Backgammon(), horizon=14 * DAY)
            engine = BatchProcessor(store, site.ladder, Backgammon(), "one", Limits(batch=claims))
            await store.join_group()
            await engine.claim_new()
            while claims > 1 and (await engine.claim_stale() or await engine.claim_new() or engine.waiting):
                await engine.settle()
            await engine.shut_down()

    asyncio.run(work(1))
    bob = {"player": "bob", "rating": 1400, "games": 9, "recent_games": recent}
    assert call("import", players({**ADA, "recent_games": recent}, bob)).code == 0
    # When they are rated, and the third is sent late
    site.send(site.match("old-3"), site.match("new-1"))
    asyncio.run(work(100))
    # Then only the new one changes anything
    assert site.redis.hget(site.keys.counts, "duplicate") == b"3"
    assert site.redis.hget(site.keys.counts, "rated") == b"1"
    assert not site.redis.xlen(site.keys.dead_letters)
    last = events(site.redis, site.keys.outbox)[-1]
    assert [part["recent_games"] for part in last["players"]] == [3, 3]
    assert [part["sequence"] for part in last["players"]] == [2, 2]
    explained = call("explain", "old-3")
    assert explained.code == 0 and "imported" in explained.out


def test_the_imported_window_makes_the_k(site: Any, call: Cli, players: Players) -> None:
    recent = [{"match_id": f"old-{n}", "finished_at": now_ms() - DAY} for n in range(50)]
    assert call("import", players({**ADA, "rating": 1500, "recent_games": recent})).code == 0
    site.rate(site.match("m-1"))
    parts = {part["player"]: part for part in events(site.redis, site.keys.outbox)[-1]["players"]}
    assert (parts["ada"]["k"], parts["ada"]["change"], parts["bob"]["k"]) == (16, 8, 32)


def test_games_that_no_window_can_ask_for_are_left_out(site: Any, call: Cli, players: Players) -> None:
    ages = (1, 20, 30)
    recent = [{"match_id": f"old-{n}", "finished_at": now_ms() - n * DAY} for n in ages]
    file = players({**ADA, "recent_games": recent})
    assert call("import", file).code == 0
    assert site.redis.zrange(site.keys.games("ada"), 0, -1) == [b"old-20", b"old-1"]
    assert call("import", file).out.endswith("nothing has changed\n")


def test_a_player_with_as_many_games_as_there_may_be(site: Any, call: Cli, players: Players) -> None:
    recent = [{"match_id": f"old-{n}", "finished_at": now_ms() - n} for n in range(MOST_GAMES)]
    assert call("import", players({**ADA, "games": MOST_GAMES, "recent_games": recent})).code == 0
    assert site.redis.zcard(site.keys.games("ada")) == MOST_GAMES
    more = [*recent, {"match_id": "more", "finished_at": now_ms()}]
    assert call("import", players({**ADA, "games": 9999, "recent_games": more})).code == 2


async def test_an_import_while_workers_rate_loses_nothing(server: Any, ladder: str) -> None:
    # Given a worker under way with the matches of a few players
    async with connect(server.url) as redis:
        stores = [LadderStore(redis, ladder, Backgammon(), horizon=14 * DAY) for _ in range(3)]
        intakes = [
            StreamConsumer(BatchProcessor(store, ladder, Backgammon(), f"w-{n}"))
            for n, store in enumerate(stores[:2])
        ]
        running = [asyncio.create_task(intake.run()) for intake in intakes]
        now, keys = now_ms(), Keys(ladder)
        names = [f"p-{n}" for n in range(6)]
        # When its players are replaced again and again, each time by other ratings
        importer = Importer(stores[2], horizon=14 * DAY, replace=True)
        reader = PlayerReader(Backgammon(), now)
        for times in range(30):
            for n in range(times * 50, times * 50 + 50):
                match = {
                    "match_id": f"m-{n}",
                    "ladder": ladder,
                    "players": [names[n % 6], names[(n + 1) % 6]],
                }
                raw = json.dumps({**match, "winner": match["players"][0], "finished_at": now - 1000})
                await redis.xadd(keys.inbox, {"message": raw})
            lines = [json.dumps({"player": name, "rating": 1000 + times, "games": 0}) for name in names]
            taken = await importer.import_chunk([reader.json(line.encode()) for line in lines])
            assert {one.outcome for one in taken} <= {"imported", "replaced"}
            await eventually(partial(_is_below, redis, keys.inbox, times * 10 + 1))
        await eventually(partial(_is_below, redis, keys.inbox, 1))
        for intake in intakes:
            intake.stop()
        await asyncio.gather(*running)
        # Then each player's events follow from each other, and every match is among them once
        last: dict[str, dict[str, Any]] = {}
        rated = 0
        for _, fields in await redis.xrange(keys.outbox):
            event = json.loads(fields[b"message"])
            rated += event["cause"] == "match"
            for part in event["players"]:
                before = last.get(part["player"], {"after": 1500, "sequence": 0})
                assert (part["before"], part["sequence"]) == (before["after"], before["sequence"] + 1)
                last[part["player"]] = part
        assert rated == 1500
        for name, part in last.items():
            assert int(await redis.hget(keys.player(name), "rating") or 0) == part["after"]  # type: ignore[misc]


async def _is_below(redis: Any, stream: str, length: int) -> bool:
    return bool(await redis.xlen(stream) < length)


def test_fifty_thousand_players(site: Any, call: Cli, players: Players) -> None:
    file = players(*old_players(50_000, now_ms()))
    begun = time.process_time()
    result = call("import", file, "--json")
    assert result.code == 0, result.err
    assert result.json["imported"] == 50_000
    assert time.process_time() - begun < 20  # 3 s on a fast core
    assert site.redis.zcard(site.keys.leaderboard) == 50_000 == site.redis.xlen(site.keys.outbox)
    assert call("import", file).out.endswith("50000 unchanged; nothing has changed\n")


@pytest.mark.parametrize("system", ["backgammon", "glicko2", "fide"])
def test_an_audit_follows_imports(site: Any, call: Cli, players: Players, system: str) -> None:
    site.config.write_text(f'[ladders.{site.ladder}]\nsystem = "{system}"\n')
    lines = old_players(60, now_ms())
    assert call("import", players(*lines)).code == 0
    audited = call("audit", "--json")
    assert audited.code == 0, audited.out
    assert (audited.json["events"], audited.json["differences"]) == (60, 0)
    # And when some of them are replaced, in part by games so old that no window can hold them.
    for line in lines[:30]:
        line["rating"] += 100
        line["recent_games"].append({"match_id": "very-old", "finished_at": now_ms() - 22 * DAY})
        line["games"] += 1
    assert call("import", players(*lines), "--replace").code == 0
    audited = call("audit", "--json")
    assert audited.code == 0, audited.out
    assert audited.json["events"] == 90


def test_it_says_so_when_redis_is_away(call: Cli, settings: pytest.MonkeyPatch, players: Players) -> None:
    settings.setenv("RATINGS_REDIS_URL", "redis://127.0.0.1:1/0")
    result = call("import", players(ADA))
    assert result.code == 3
    assert result.err == "match-ratings: Redis at 127.0.0.1:1 is not reachable: connection refused\n"


def test_a_real_kill_in_the_middle(site: Any, call: Cli, players: Players, spawn: Callable[..., Any]) -> None:
    file = players(*old_players(20_000, now_ms()))
    for _ in range(3):
        process = spawn("import", file)
        before = site.redis.xlen(site.keys.outbox)
        until(lambda: site.redis.xlen(site.keys.outbox) >= before + 1000, pause=0)  # noqa: B023
        process.kill()
        process.communicate()
    assert 3000 <= site.redis.xlen(site.keys.outbox) < 20_000
    result = call("import", file, "--json").json
    assert result["imported"] + result["unchanged"] == 20_000
    assert site.redis.xlen(site.keys.outbox) == site.redis.zcard(site.keys.leaderboard) == 20_000


@pytest.mark.slow
def test_on_a_cluster(call: Cli, settings: pytest.MonkeyPatch, players: Players, tmp_path: Path) -> None:
    with cluster() as nodes:
        url = "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        settings.setenv("RATINGS_REDIS_URL", url)
        settings.setenv("RATINGS_ARQ_URL", "redis://127.0.0.1:1/0")  # not used here
        file = players(*old_players(500, now_ms()))
        result = call("import", file)
        assert result.out == "players of backgammon: 500 imported\n", result.err
        assert call("import", "--shadow", file).out == "players of backgammon's shadow: 500 imported\n"
        assert call("compare", players(name="none.jsonl")).code == 0
        cleared = call("shadow", "clear", "--yes", "--json").json
        assert cleared["keys"] > 500
        settings.setenv("RATINGS_ARCHIVE", str(tmp_path / "a.db"))
        assert call("archive", "adopt", "--yes").code == 0
        assert call("archive", "status", "--json").json["kept_events"] == 500
        assert call("audit").code == 0
