"""Edits: values set in a message, judged before they are kept, and what was before stays known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from match_ratings import DeadLetter
from match_ratings_worker.dead_letters import (
    InvalidEdit,
    ReplayOutcome,
    edit_dead_letter,
    edited_message,
    format_message,
    minify_message,
)
from tests.support.clock import DAY
from tests.support.office import HORIZON, Office, outcomes


@pytest.mark.parametrize(
    ("values", "without", "wanted"),
    [
        ([("cube", "2")], [], {"cube": 2}),
        ([("cube", "two")], [], {"cube": "two"}),
        ([("winner", "ada")], [], {"winner": "ada"}),
        ([("winner", '"ada"')], [], {"winner": "ada"}),
        ([("winner", "null")], [], {"winner": None}),
        ([("x", "NaN")], [], {"x": "NaN"}),
        ([("x", "1=2")], [], {"x": "1=2"}),
        ([("players.1", "cyd")], [], {"players": ["ada", "cyd"]}),
        ([("players.2", "cyd")], [], {"players": ["ada", "bob", "cyd"]}),
        ([("more.deep", "1")], [], {"more": {"deep": 1}}),
        ([("name", "é\U0001f3b2\u202e")], [], {"name": "é\U0001f3b2\u202e"}),
        ([], ["more"], {"more": ...}),
        ([], ["players.0"], {"players": ["bob"]}),
        ([("more.a", "1"), ("more.a", "2")], ["more.b"], {"more": {"a": 2}}),
    ],
)
def test_values_are_set_by_path(values: Any, without: Any, wanted: dict[str, Any]) -> None:
    message = {"players": ["ada", "bob"], "more": {"b": 1} if "more.b" in without else {}}
    new = json.loads(edited_message(json.dumps(message).encode(), values, without))
    expected = {name: value for name, value in {**message, **wanted}.items() if value is not ...}
    assert new == expected


@pytest.mark.parametrize(
    ("message", "values", "without", "sentence"),
    [
        (b"{", [("cube", "2")], [], "it is not JSON"),
        (b"\xff", [("cube", "2")], [], "it is not JSON"),
        (b"[" * 100_000, [("cube", "2")], [], "it is not JSON"),
        (b"[]", [("0", "2")], [], "it is not a JSON object"),
        (b"{}", [("a.b", "2")], [], '"a.b": there is no "a"'),
        (b'{"a": []}', [("a.1", "2")], [], '"a.1": this place cannot be set'),
        (b'{"a": []}', [("a.x", "2")], [], '"a.x": this place cannot be set'),
        (b'{"a": 1}', [("a.x", "2")], [], '"a.x": this place cannot be set'),
        (b"{}", [("", "2")], [], "this place cannot be set"),
        (b"{}", [], ["a"], '"a": there is nothing to remove'),
    ],
)
def test_what_cannot_be_set_is_said(message: bytes, values: Any, without: Any, sentence: str) -> None:
    with pytest.raises(InvalidEdit, match=sentence):
        edited_message(message, values, without)


def test_an_editor_shows_json_laid_out_and_anything_else_as_it_is() -> None:
    assert format_message(b'{"a":"\xc3\xa9"}') == b'{\n  "a": "\xc3\xa9"\n}\n'
    assert minify_message(format_message(b'{"a": 1}')) == b'{"a": 1}'
    for message in (b"\xff{", b'{"a": "\\ud800"}'):
        assert format_message(message) == message and minify_message(message) == message


async def test_an_edited_letter_has_the_past_of_the_one_before(office: Office) -> None:
    # Given a letter that died twice
    [letter] = await office.die(office.match("m", cube=3))
    await office.replay(letter.id)
    [letter] = await office.dead_letters()
    # When its cube is put right
    message = edited_message(letter.message, [("cube", "2")])
    edited = await edit_dead_letter(office.handle, letter, message, by="mia", why="a typo")
    # Then it is judged, and has a new id and the rest of the old one
    assert edited.dry_run.outcome is ReplayOutcome.RATED and not edited.gone
    [new] = await office.dead_letters()
    assert new.id == edited.new_id and new.message == message
    same = ("reason", "source_id", "attempts", "first_seen", "dead_at")
    assert all(getattr(new, name) == getattr(letter, name) for name in same)
    assert new.detail == f"edited; before: {letter.detail}"
    # And the message before, who, when and why are in its history, also after another edit
    again = edited_message(new.message, [("cube", "4")])
    await edit_dead_letter(office.handle, new, again, by="ole", why="not 2")
    [last] = await office.dead_letters()
    first, second = json.loads(last.history)
    assert (first["who"], first["why"], first["letter"]) == ("mia", "a typo", letter.id)
    assert json.loads(first["message"])["cube"] == 3 and json.loads(second["message"])["cube"] == 2
    assert abs(first["at"] - office.now) < 60_000
    assert last.detail == new.detail
    # And it is rated, and the history goes with it into the corrections
    assert outcomes(await office.replay(last.id)) == ["rated"]
    [(_, kept)] = await office.redis.xrange(office.keys.corrections)
    assert kept[b"history"].decode() == last.history
    [event] = await office.events()
    assert event.cube == 4


async def test_the_history_comes_back_with_a_letter_that_dies_again(office: Office) -> None:
    [letter] = await office.die(office.match("m", cube=3))
    message = edited_message(letter.message, [("cube", "5")])
    edited = await edit_dead_letter(office.handle, letter, message, by="mia", why="x", force=True)
    assert edited.dry_run.outcome is ReplayOutcome.STILL_WRONG
    [result] = await office.replay(edited.new_id)
    assert result.outcome is ReplayOutcome.STILL_WRONG
    [letter] = await office.dead_letters()
    assert json.loads(letter.history)[0]["who"] == "mia" and letter.attempts == 2
    # It is a dead letter such as consumers read
    [(_, fields)] = await office.redis.xrange(office.keys.dead_letters)
    DeadLetter.model_validate(
        {
            name.decode(): value if name == b"message" else _number(value.decode())
            for name, value in fields.items()
        }
    )


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else text


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ([("cube", "2")], True),
        ([("cube", "5")], False),
        ([("version", "7"), ("cube", "2")], False),
        ([("match_id", "rated"), ("cube", "2")], False),  # a conflict
        ([("winner", "null"), ("cube", "2")], False),  # the system has no draws
        ([("finished_at", str(1_700_000_000_000)), ("cube", "2")], True),  # too late, which can be forced
        ([("mode", "boosted"), ("cube", "2")], True),
    ],
)
async def test_what_is_still_wrong_is_kept_only_when_somebody_insists(
    office: Office, values: Any, stored: bool
) -> None:
    await office.send(office.match("rated"))
    await office.work()
    [letter] = await office.die(office.match("m", cube=3))
    message = edited_message(letter.message, values)
    edited = await edit_dead_letter(office.handle, letter, message, by="mia", why="x")
    assert bool(edited.new_id) is stored
    [now] = await office.dead_letters()
    assert now.message == (message if stored else letter.message)
    if not stored:
        assert edited.dry_run.detail
        edited = await edit_dead_letter(office.handle, letter, message, by="mia", why="x", force=True)
        [now] = await office.dead_letters()
        assert (now.id, now.message) == (edited.new_id, message)
        assert (now.reason, now.detail) == (edited.dry_run.reason, edited.dry_run.detail)


async def test_of_two_edits_at_once_one_wins(office: Office) -> None:
    [letter] = await office.die(office.match("m", cube=3))
    one, other = (edited_message(letter.message, [("cube", cube)]) for cube in ("2", "4"))
    first = await edit_dead_letter(office.handle, letter, one, by="mia", why="x")
    second = await edit_dead_letter(office.handle, letter, other, by="ole", why="x")
    assert first.new_id and not first.gone and second.gone and not second.new_id
    [now] = await office.dead_letters()
    assert now.message == one


async def test_a_letter_that_nobody_wrote_well_can_be_edited(office: Office) -> None:
    # Given a letter with no more than a message, and a history that is none
    letter_id = (
        await office.redis.xadd(office.keys.dead_letters, {"x": "y", "message": "m", "history": "{"})
    ).decode()
    [letter] = await office.letters.get([letter_id])
    assert letter is not None
    raw = json.dumps(office.match("m")).encode()
    await edit_dead_letter(office.handle, letter, raw, by="mia", why="x")
    [now] = await office.dead_letters()
    assert json.loads(now.history)[0] == {"unreadable": "{"}
    assert (await office.redis.xrange(office.keys.dead_letters))[0][1][b"x"] == b"y"
    # And replayed: what is missing does no harm
    assert outcomes(await office.replay(now.id)) == ["rated"]


async def test_discarded_letters_are_kept_in_a_log(office: Office) -> None:
    ids = await office.bury(office.match("a"), office.match("b"), office.match("c"))
    assert await office.letters.discard(["1-1", ids[0], "x", ids[2]], by="mia", why="noise") == [
        ids[0],
        ids[2],
    ]
    assert [letter.id for letter in await office.dead_letters()] == [ids[1]]
    log = await office.redis.xrange(office.keys.discarded)
    assert [fields[b"letter"].decode() for _, fields in log] == [ids[0], ids[2]]
    assert {fields[b"who"] for _, fields in log} == {b"mia"} and log[0][1][b"why"] == b"noise"
    assert json.loads(log[0][1][b"message"])["match_id"] == "a" and log[0][1][b"reason"] == b"failed"
    # And nothing brings them back
    assert outcomes(await office.replay()) == ["rated"]
    assert [event.match_id for event in await office.events()] == ["b"]


async def test_too_late_to_edit_a_time_that_is_right(office: Office) -> None:
    [letter] = await office.bury(office.match("m", cube=3, finished_at=office.now - HORIZON - DAY))
    [found] = await office.letters.get([letter])
    assert found is not None
    message = edited_message(found.message, [("cube", "2")])
    edited = await edit_dead_letter(office.handle, found, message, by="mia", why="x")
    assert edited.dry_run.outcome is ReplayOutcome.PARKED and edited.dry_run.reason == "too-late"
    [now] = await office.dead_letters()
    assert now.reason == "too-late"
    assert outcomes(await office.replay(now.id, force_late=True)) == ["rated"]
