"""What is said to be wrong with a message, where, and what would make it valid."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from match_ratings_worker.dead_letters import (
    Diagnosis,
    ReplayOutcome,
    diagnose,
    edited_message,
    inspect_dead_letter,
)
from match_ratings_worker.pipeline.validate_message import Problem, read_message
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.ladder_handle import LadderHandle
from tests.support.clock import DAY, now_ms
from tests.support.office import HORIZON, Office

NOW = now_ms()
LADDER = LadderHandle(Redis(), "here", Backgammon(), horizon_ms=HORIZON, idle_ms=30_000)
GOOD: dict[str, Any] = {
    "match_id": "m",
    "ladder": "here",
    "players": ["ada", "bob"],
    "winner": "ada",
    "finished_at": NOW,
}


def said(message: Any) -> Diagnosis:
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    return diagnose(raw, LADDER, NOW)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


def test_nothing_is_wrong_with_a_good_message() -> None:
    found = said(GOOD)
    assert found.problem is None and found.troubles == []
    assert found.fields[2] == ("players", '["ada", "bob"]')


@pytest.mark.parametrize(
    ("raw", "where", "what"),
    [
        (b'{"match_id": ', "line 1, column 14", 'expecting value, between "{\\"match_id\\": " and ""'),
        (b'{\n "a": 1,\n}', "line 3, column 1", "between"),
        (b"\xff{", "byte 0", "the byte 0xff after"),
        (b'{"a": "\xc3\x28"}', "byte 7", "the byte 0xc3 after"),
        (b"[1]", "message", "[1] is not an object"),
        (b"x" * 20_000, "message", "20000 bytes"),
        (b"", "line 1, column 1", "expecting value"),
        (b"[" * 10_000, "message", "nested too deep"),
    ],
)
def test_what_is_no_json_is_shown_with_its_place(raw: bytes, where: str, what: str) -> None:
    found = said(raw)
    [trouble] = found.troubles
    assert trouble.where == where and what in trouble.what and found.fields == []
    assert found.problem is not None and found.problem.reason == "malformed"


@pytest.mark.parametrize(
    ("message", "where", "allowed", "suggestion"),
    [
        (GOOD | {"cube": 3}, "cube", "one of 1, 2, 4, 8, 16, 32, 64", ""),
        (GOOD | {"cube": "2"}, "cube", "one of 1, 2, 4", "cube=2"),
        (GOOD | {"cube": 4.0}, "cube", "one of 1, 2, 4", "cube=4"),
        (GOOD | {"length": "7"}, "length", "a whole number from 1 to 1000", "length=7"),
        (GOOD | {"winner": " ADA"}, "winner", "one of the two players", "winner=ada"),
        (GOOD | {"winner": "cyd"}, "winner", "one of the two players", ""),
        (without("winner"), "winner", "one of the two players", ""),
        pytest.param(
            *(GOOD | {"finished_at": NOW // 1000}, "finished_at", "milliseconds"),
            f"finished_at={NOW // 1000}000",
            id="seconds",
        ),
        (GOOD | {"finished_at": "2026-01-01T00:00:00"}, "finished_at", "with an offset", ""),
        (GOOD | {"mode": "fun"}, "mode", "one of ranked, boosted, tournament", ""),
        (GOOD | {"players": ["ada", "ada"]}, "players", "two different player ids", ""),
        (GOOD | {"players": ["ada", 7]}, "players.1", "two different player ids", ""),
        (GOOD | {"ladder": "There"}, "ladder", "the ladder's name", ""),
        (GOOD | {"ladder": "there"}, "ladder", "send it to its own ladder", "ladder=here"),
        (GOOD | {"version": 2}, "version", "after an upgrade", ""),
        (GOOD | {"finished_at": NOW + DAY}, "finished_at", "when its time has come", ""),
        (GOOD | {"finished_at": NOW - 20 * DAY}, "finished_at", "replay --force-late", ""),
        (GOOD | {"type": "x"}, "type", "match-finished", ""),
        (GOOD | {"type": "tournament-finished"}, "tournament_id", "1-128 characters", ""),
    ],
)
def test_each_field_is_named_with_what_is_allowed(
    message: dict[str, Any], where: str, allowed: str, suggestion: str
) -> None:
    trouble = next(item for item in said(message).troubles if item.where == where)
    assert allowed in trouble.allowed and trouble.suggestion == suggestion


def test_all_that_is_wrong_is_named_not_only_the_first() -> None:
    message = {"match_id": "", "ladder": "here", "players": [], "winner": 1, "cube": 3, "finished_at": "x"}
    wrong = {trouble.where for trouble in said(message).troubles}
    assert {"match_id", "players.0", "players.1", "winner", "cube", "finished_at"} <= wrong


@pytest.mark.parametrize("name", ["Ada B", "é\u202e", "a'b", "$(rm x)", "null", "7", "\x7f", "-x", "a=b"])
def test_a_suggestion_survives_the_shell_and_makes_the_message_valid(name: str) -> None:
    # Given a winner that differs in case from the player who is meant
    wrong = GOOD | {"players": [name, "somebody else"], "winner": f" {name} "}
    raw = json.dumps(wrong).encode()
    if any(ord(char) == 127 for char in name):
        return  # no player can have this name
    [trouble] = [item for item in said(wrong).troubles if item.where == "winner"]
    # When the suggestion is typed into a shell
    assert trouble.suggestion.isascii() and trouble.suggestion.isprintable()
    [word] = shlex.split(trouble.suggestion)
    path, _, value = word.partition("=")
    new = edited_message(raw, [(path, value)])
    # Then the message is valid
    read = read_message(new, ladder="here", kind="match", now=NOW, horizon=HORIZON)
    assert not isinstance(read, Problem)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary() | st.dictionaries(st.sampled_from([*GOOD, "cube", "type", "\x1b[31m"]), ANYTHING))
def test_whatever_comes_is_diagnosed_and_safe_to_print(message: Any) -> None:
    found = said(message)
    texts = [text for pair in found.fields for text in pair]
    for trouble in found.troubles:
        texts += [trouble.where, trouble.what, trouble.allowed, trouble.suggestion]
    assert all(text.isprintable() for text in texts)
    assert bool(found.troubles) is (found.problem is not None)


async def test_a_conflict_is_shown_against_what_was_rated(office: Office) -> None:
    await office.send(office.match("m", cube=2))
    await office.work()
    finished_at = office.now - 50_000
    [letter] = await office.die(office.match("m", winner="bob", finished_at=finished_at))
    found = await inspect_dead_letter(office.handle, letter)
    assert found.dry_run.outcome is ReplayOutcome.CONFLICT
    [trouble] = found.troubles
    assert trouble.what == (
        'winner "bob", it was rated with "ada"; cube 1, it was rated with 2; '
        f"finished_at {finished_at}, it was rated with {office.now - 60_000}"
    )
    assert "void that match" in trouble.allowed


async def test_what_the_rules_refuse_is_shown(office: Office) -> None:
    [draw] = await office.die(office.match("m", winner=None))
    [trouble] = (await inspect_dead_letter(office.handle, draw)).troubles
    assert trouble.where == "winner" and "null is a draw" in trouble.what


async def test_what_fails_for_the_data_in_redis_is_shown(real: Office) -> None:
    await real.redis.set(real.keys.player("eve"), "no hash")
    [failed] = await real.bury(real.match("n", ("eve", "bob")))
    [letter] = await real.letters.get([failed])
    assert letter is not None
    found = await inspect_dead_letter(real.handle, letter)
    assert found.dry_run.outcome is ReplayOutcome.STILL_WRONG and found.dry_run.reason == "failed"
    assert "fix the cause" in found.troubles[0].allowed
