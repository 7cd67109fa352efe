"""leaderboard, player, explain, status and dead-letters list on a ladder with rated matches."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from match_ratings.stream_names import GROUP
from match_ratings_worker.storage.stream_pages import entries
from tests.support.waiting import until

#: Ids that are allowed and try to act on a terminal, or to hide; and how they are shown.
HOSTILE = {
    "[red]eve[/red]": "[red]eve[/red]",
    ":smile: {x} %s": ":smile: {x} %s",
    "\u202egnp.exe": r"\u202egnp.exe",
    "a\u200bb": r"a\u200bb",
    "🎲 Zoë 名前": "🎲 Zoë 名前",
    "y" * 128: "y" * 128,
}


def test_equal_ratings_share_a_rank(call: Any, site: Any) -> None:
    site.redis.zadd(site.keys.leaderboard, {"ada": 1600, "bob": 1500, "cy": 1500, "dee": 1400})
    assert call("leaderboard").rows == [
        ["1", "1600", "0", "ada"],
        ["2", "1500", "0", "cy"],
        ["2", "1500", "0", "bob"],
        ["4", "1400", "0", "dee"],
    ]
    assert [place["rank"] for place in call("leaderboard", "--json", "--top", "3").json_lines] == [1, 2, 2]
    assert call("leaderboard", "--around", "bob", "--top", "1").rows == [["2", "1500", "0", "bob"]]
    assert [row[3] for row in call("leaderboard", "--around", "dee", "--top", "2").rows] == ["bob", "dee"]
    assert call("leaderboard", "--around", "ada", "--top", "9").rows[0][3] == "ada"


def test_a_long_leaderboard_has_the_same_ranks_in_every_page(call: Any, site: Any) -> None:
    # Given: 2,500 players, ten with each rating, more than one page holds
    site.redis.zadd(site.keys.leaderboard, {f"player-{number}": number // 10 for number in range(2500)})
    places = call("leaderboard", "--top", "3000", "--json").json_lines
    assert len({place["player"] for place in places}) == 2500
    assert [place["rank"] for place in places] == [number // 10 * 10 + 1 for number in range(2500)]
    middle = call("leaderboard", "--around", "player-1234", "--top", "3", "--json").json_lines
    assert middle[1] == {"rank": 1261, "player": "player-1234", "rating": 123, "games": 0}


def test_an_empty_leaderboard_and_a_player_who_is_not_on_it(call: Any, site: Any) -> None:
    result = call("leaderboard")
    assert (result.code, result.out) == (0, "")
    assert result.err == f"nobody is on the leaderboard of {site.ladder} yet\n"
    result = call("leaderboard", "--around", "ada")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"match-ratings: player ada is not on the leaderboard of {site.ladder}\n"


def test_a_player_has_the_k_that_the_system_gives_for_the_games_of_the_week(call: Any, site: Any) -> None:
    # Given: 49 games of ada's, one before the week, and a prize
    now = site.match("")["finished_at"]
    old = site.match("m-old", finished_at=now - 8 * 86_400_000)
    site.rate(old, *(site.match(f"m-{n}", finished_at=now + n) for n in range(49)))
    prize = {"type": "tournament-finished", "tournament_id": "t-1", "ladder": site.ladder, "public": True}
    site.rate({**prize, "podium": ["ada"], "finished_at": now})
    found = call("player", "ada", "--json", "--changes", "3").json
    assert (found["games"], found["recent_games"], found["k"], found["sequence"]) == (50, 49, 32, 51)
    assert (found["rank"], found["listed"], found["last_game"]) == (1, 2, now + 48)
    assert [event.get("match_id") for event in found["changes"]] == [None, "m-48", "m-47"]
    # When: one more
    site.rate(site.match("m-49", finished_at=now + 49))
    assert call("player", "ada", "--json").json["k"] == 16
    result = call("player", "ada", "--changes", "4")
    assert "ranked games  51, 50 of them in the last 7 days" in result.out
    assert [line.split()[-1] for line in result.out.splitlines()[-4:]] == ["m-49", "t-1", "m-48", "m-47"]


def test_changes_are_found_without_receipts_and_as_far_as_they_are_kept(call: Any, site: Any) -> None:
    site.rate(*(site.match(f"m-{n}", ("ada", "bob") if n % 2 else ("ada", "cy")) for n in range(6)))
    # Given: the receipts of the latest two of bob's games are gone, and the first event is trimmed
    site.redis.delete(site.keys.receipt("m-5"), site.keys.receipt("m-3"))
    site.redis.xtrim(site.keys.outbox, maxlen=4, approximate=False)
    ids = [event["match_id"] for event in call("player", "bob", "--json").json["changes"]]
    assert ids == ["m-5", "m-3"]


def test_an_unknown_player_and_one_whose_state_is_broken(call: Any, site: Any) -> None:
    result = call("player", "nobody")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"match-ratings: player nobody is not known on ladder {site.ladder}\n"
    site.redis.hset(site.keys.player("ada"), mapping={"rating": "many"})
    result = call("player", "ada")
    assert result.code == 3
    assert result.err.startswith('match-ratings: the stored state of player "ada" cannot be read')


def test_a_match_is_explained_step_by_step_and_computed_again(call: Any, site: Any) -> None:
    site.rate(site.match("m-1", cube=2))
    result = call("explain", "m-1")
    assert result.code == 0 and not result.err
    for text in (
        "coefficient  1 + log2(2) / 6",
        "1 / (1 + 10^((1500 - 1500) / 1200))",
        "0 games in 7 days < 50",
        "32 x (1 - 0.5000) x 1.1667",
        "+18.6667",
        "1500 +19",
        "Recomputed from the event alone: the same figures.",
    ):
        assert text in result.out
    found = call("explain", "m-1", "--json").json
    assert (found["outcome"], found["differences"]) == ("rated", [])
    assert found["event"]["players"][0]["after"] == 1519
    assert {"label": "K", "formula": "0 games in 7 days < 50", "result": "32", "player": "ada"} in found[
        "steps"
    ]


@pytest.mark.parametrize(("field", "value"), [("change", 20), ("after", 9), ("expected", 0.6), ("k", 16)])
def test_an_event_that_does_not_add_up_is_told(call: Any, site: Any, field: str, value: float) -> None:
    # Given: an event of the ledger was changed by hand
    site.rate(site.match("m-1"))
    entry_id, fields = site.redis.xrange(site.keys.outbox)[0]
    event = json.loads(fields[b"message"])
    event["players"][1][field] = value
    site.redis.delete(site.keys.outbox)
    site.redis.xadd(site.keys.outbox, {"message": json.dumps(event)}, id=entry_id)
    result = call("explain", "m-1")
    assert result.code == 0
    assert "Recomputed from the event alone: it differs." in result.out
    assert f"{field} of bob: {value} in the event" in result.out


def test_what_became_of_matches_that_changed_no_rating(call: Any, site: Any) -> None:
    # Given: one rated twice, one boosted, one wrong, one claimed, one waiting
    site.rate(site.match("m-1"), site.match("m-1"), site.match("boosted", mode="boosted"))
    site.rate(site.match("wrong", winner="eve"))
    site.send(site.match("claimed"))
    site.redis.xreadgroup(GROUP, "worker-1", {site.keys.inbox: ">"})
    site.send(site.match("waiting"))
    expected = {
        "m-1": ("rated", 0, "match"),
        "boosted": ("not-rated", 0, "changed no rating by the rules: it was boosted"),
        "wrong": ("dead", 0, "was not rated and is dead letter "),
        "claimed": ("waiting", 0, "claimed by worker-1"),
        "waiting": ("waiting", 0, "not claimed by a worker yet"),
        "unknown": ("unknown", 1, ""),
    }
    for match_id, (outcome, code, text) in expected.items():
        result = call("explain", match_id, "--json")
        assert (result.code, result.json["outcome"]) == (code, outcome), match_id
        result = call("explain", match_id)
        assert result.code == code and text in result.out
    assert result.err == (
        f"match-ratings: unknown on ladder {site.ladder} is not known: "
        "not in the inbox, the ledger or the dead letters\n"
    )


def test_a_match_without_receipt_is_found_in_the_ledger_and_one_without_event_is_told(
    call: Any, site: Any
) -> None:
    site.rate(site.match("Zoë"), site.match("m-2"))
    site.redis.delete(site.keys.receipt("Zoë"))
    assert call("explain", "Zoë", "--json").json["event"]["match_id"] == "Zoë"
    site.redis.xtrim(site.keys.outbox, maxlen=0)
    result = call("explain", "m-2")
    assert result.code == 1
    assert result.err.endswith(", but that event is no longer kept\n")


@pytest.mark.parametrize("receipts", [True, False])
def test_a_match_that_was_taken_back_is_explained_with_that(call: Any, site: Any, receipts: bool) -> None:
    match = site.match("m-1")
    void = {"type": "match-voided", "match_id": "m-1", "ladder": site.ladder, "players": ["ada", "bob"]}
    site.rate(match, {**void, "why": "[red]cheat\u202e", "finished_at": match["finished_at"]})
    if not receipts:
        site.redis.delete(site.keys.receipt("m-1"), site.keys.void_receipt_ + "m-1")
    result = call("explain", "m-1")
    assert result.code == 0
    assert "+16" in result.out and "the same figures." in result.out
    assert re.search(r"Voided by event \S+ on .*: \[red\]cheat\\u202e\n  -16  ada\n  \+16  bob\n", result.out)
    found = call("explain", "m-1", "--json").json
    assert (found["outcome"], found["event"]["cause"], found["voided"]["cause"]) == ("rated", "match", "void")


def test_a_tournament_is_explained_too(call: Any, site: Any) -> None:
    prize = {"type": "tournament-finished", "tournament_id": "t-1", "ladder": site.ladder, "public": True}
    site.rate({**prize, "podium": ["ada", "bob"], "finished_at": site.match("")["finished_at"]})
    result = call("explain", "t-1")
    assert result.code == 0 and ": prize\n" in result.out and "+50" in result.out


def test_status_counts_what_waits_and_who_works(call: Any, site: Any) -> None:
    site.rate(site.match("m-1"), site.match("m-1"), site.match("m-2", cube=3), b"x")
    # Given: one message claimed by a worker, two waiting for it
    site.send(site.match("m-3"))
    site.redis.xreadgroup(GROUP, "worker-1", {site.keys.inbox: ">"})
    site.redis.hset(site.keys.busy_shares, "worker-1", "0.250 1700000000000")
    site.send(site.match("m-4"), site.match("m-5"))
    found = call("status", "--json", "--ladder", site.ladder).json
    ladder = found["ladders"][0]
    assert (ladder["backlog"], ladder["claimed"], ladder["players"], ladder["events"]) == (3, 1, 2, 1)
    assert 0 <= ladder["oldest_waiting_ms"] < 10_000
    assert ladder["dead_by_reason"] == {"malformed": 1, "invalid": 1}
    assert ladder["counts"] == {"dead:invalid": 1, "dead:malformed": 1, "duplicate": 1, "rated": 1}
    worker = ladder["workers"][0]
    assert (worker["name"], worker["pending"], worker["live"]) == ("worker-1", 1, True)
    assert worker["busy"] == 0.25
    assert found["unread"] == []
    out = call("status").out
    assert "backlog          3, 1 of them claimed" in out and "dead letters     2 (" in out
    assert re.search(r"worker-1 +1 +25% ", out)


def test_status_names_what_nobody_reads(call: Any, site: Any, settings: pytest.MonkeyPatch) -> None:
    # Given: our ladder's worker is gone, another ladder has messages and no worker, a third no messages
    settings.setenv("RATINGS_IDLE_SECONDS", "1")
    other = f"{site.ladder}-b"
    site.send(site.match("m-1"))
    site.redis.xgroup_create(site.keys.inbox, GROUP, id="0")
    site.redis.xreadgroup(GROUP, "worker-1", {site.keys.inbox: ">"})
    site.redis.xadd(site.keys.inbox.replace(site.ladder, other), {"message": "{}"})
    site.redis.xgroup_create(site.keys.inbox.replace(site.ladder, f"{site.ladder}-c"), GROUP, mkstream=True)
    site.redis.set("ratings:{No Ladder}:match-finished", "x", ex=60)
    until(lambda: site.redis.xinfo_consumers(site.keys.inbox, GROUP)[0]["idle"] > 1_000)
    unread = [item for item in call("status", "--json").json["unread"] if site.ladder in item["ladder"]]
    assert unread == [
        {"ladder": site.ladder, "messages": 1, "why": "no-worker", "configured": True},
        {"ladder": other, "messages": 1, "why": "never-read", "configured": False},
    ]
    out = call("status").out
    assert f"! ladder {site.ladder} has no running worker; 1 messages wait" in out
    assert (
        f"! ladder {other}, which is not configured here, was never read by a worker; 1 messages wait" in out
    )
    assert "worker-1" in out and "gone" in out


def test_dead_letters_are_listed_newest_first_with_their_bytes_shown_safely(call: Any, site: Any) -> None:
    raw = b"\x1b[2J\x9b31m\xff\xe2\x80\xae [red]x[/red] \x07"
    site.rate(raw, site.match("m-1", cube=3), site.match("m-2", winner="eve"))
    result = call("dead-letters", "list")
    assert result.code == 0 and not result.err
    titles, newest, _, oldest = result.out.splitlines()
    assert titles.split() == ["id", "dead", "since", "reason", "attempts", "detail", "message"]
    assert "must be one of the players" in newest
    assert oldest.endswith(r"\x1b[2J\x9b31m\xff\u202e [red]x[/red] \x07")
    first = call("dead-letters", "list", "--json", "--reason", "malformed").json
    assert (first["message"], base64.b64decode(first["message_base64"])) == (None, raw)
    assert (first["reason"], first["attempts"]) == ("malformed", 1)
    result = call("dead-letters", "list", "--json", "--limit", "1")
    assert json.loads(result.json["message"])["match_id"] == "m-2"
    assert result.err.startswith("1 shown, there are more; --after ") and result.err.count("\n") == 1


def test_dead_letters_that_nobody_wrote_well_are_listed_too(call: Any, site: Any) -> None:
    site.redis.xadd(site.keys.dead_letters, {"x": "y"})
    site.redis.xadd(site.keys.dead_letters, {"message": "m", "reason": "\x1b[31m", "attempts": "many"})
    assert call("dead-letters", "list").code == 0
    assert [letter["attempts"] for letter in call("dead-letters", "list", "--json").json_lines] == [0, 0]


def test_no_dead_letters(call: Any, site: Any) -> None:
    assert call("dead-letters", "list") == (0, "", "there are no dead letters\n")
    assert (
        call("dead-letters", "list", "--reason", "failed").err
        == "there are no dead letters with this reason\n"
    )


@pytest.mark.parametrize(("player", "shown"), HOSTILE.items(), ids=[ascii(name)[:20] for name in HOSTILE])
def test_hostile_ids_are_shown_whole_and_harmless(call: Any, site: Any, player: str, shown: str) -> None:
    site.rate(site.match(f"m {player}"[:128], (player, "bob")))
    match_id = f"m {player}"[:128]
    for command in (["leaderboard"], ["player", player], ["explain", match_id]):
        result = call(*command)
        assert result.code == 0 and shown in result.out, command
        assert all(line.isprintable() for line in result.out.splitlines()), command
        as_json = call(*command, "--json").out
        assert as_json.isascii() and as_json.isprintable() is False and json.dumps(player) in as_json


def test_on_a_terminal_nothing_from_a_message_acts(
    site: Any, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    pty = pytest.importorskip("pty")
    site.rate(b"\x1b[2J\x07[blink]x", site.match("m-1", ("[blink]ada", "\u202ebob")))
    commands = (["leaderboard"], ["player", "[blink]ada"], ["explain", "m-1"], ["dead-letters", "list"])
    for command in commands:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
        process = spawn(*command, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        os.close(ours)
        assert process.wait(10) == 0
        assert b"\x1b[1m" in shown  # it is a terminal: titles are bold
        assert b"\x1b[5m" not in shown and b"\x1b[2J" not in shown and b"\x07" not in shown
        assert "\u202e".encode() not in shown and b"[blink]" in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""


@pytest.mark.parametrize("reverse", [False, True])
async def test_streams_are_read_in_pages(redis: Any, ladder: str, reverse: bool) -> None:
    stream = f"ratings:{{{ladder}}}:x"
    ids = [(await redis.xadd(stream, {"n": n})).decode() for n in range(7)]
    for page in (1, 2, 7, 100):
        found = [entry_id async for entry_id, _ in entries(redis, stream, page=page, reverse=reverse)]
        assert found == (ids[::-1] if reverse else ids)
    inner = entries(redis, stream, oldest=f"({ids[1]}", newest=f"({ids[5]}", page=2, reverse=reverse)
    assert sorted([entry_id async for entry_id, _ in inner]) == ids[2:5]
