"""Export and import: a dead letter comes back as it was, once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from match_ratings_worker.dead_letters import (
    DeadLetterStore,
    ExportedDeadLetter,
    InvalidExport,
    edit_dead_letter,
    export_document,
)
from match_ratings_worker.storage.dead_letter_format import DeadLetterEntry
from tests.support.office import Office, outcomes

LETTER = DeadLetterEntry("7-1", b"\xff", "invalid", "x", "5-0", 3, 1_700_000_000_000, 1_700_000_000_001, "")


async def restore(letters: DeadLetterStore, lines: list[bytes], ladder: str) -> list[str]:
    records = [ExportedDeadLetter.read(line, ladder) for line in lines]
    return await letters.restore([(record.fingerprint(), record.entry()) for record in records])


def exported(found: list[DeadLetterEntry], ladder: str) -> list[bytes]:
    return [json.dumps(export_document(letter, ladder)).encode() for letter in found]


async def test_what_was_exported_and_discarded_comes_back_once(office: Office) -> None:
    # Given dead letters of every kind, one with a history
    await office.die(
        office.match("m", cube=3), b'{"\xc3\xa9": "', b"", office.match("n", ("é\U0001f3b2", "\u202e"))
    )
    [first, *_] = await office.dead_letters()
    await edit_dead_letter(office.handle, first, b'{"cube": 5}', by="é", why="x", force=True)
    before = await office.dead_letters()
    lines = exported(before, office.ladder)
    assert all(line.isascii() and b"\n" not in line for line in lines)
    # When they are imported while they are there, then nothing happens
    assert await restore(office.letters, lines, office.ladder) == ["="] * len(before)
    # When they have been discarded, then they come back as they were
    await office.letters.discard([letter.id for letter in before], by="mia", why="moved")
    new_ids = await restore(office.letters, lines, office.ladder)
    after = await office.dead_letters()
    assert [letter.id for letter in after] == new_ids
    assert [replace(letter, id="") for letter in after] == [replace(letter, id="") for letter in before]
    # And once only, also when they have been replayed or discarded since
    await office.letters.discard(new_ids[:2], by="mia", why="again")
    assert await restore(office.letters, lines, office.ladder) == [""] * len(before)
    assert 0 < await office.redis.pttl(office.keys.restored) <= 90 * 86_400_000


async def test_bytes_that_are_not_utf_8_come_back(real: Office) -> None:
    [letter] = await real.die(b"\xff\x00\x1b{")
    [line] = exported([letter], real.ladder)
    assert json.loads(line)["message_base64"] == "/wAbew==" and "message" not in json.loads(line)
    await real.letters.discard([letter.id], by="mia", why="x")
    await restore(real.letters, [line], real.ladder)
    [again] = await real.dead_letters()
    assert again.message == letter.message


async def test_an_import_keeps_the_place_of_a_message_among_the_others(office: Office) -> None:
    # Given two dead letters of a player, of which the earlier comes back by an import
    [early] = await office.bury(office.match("m-1"), source_id="5-0", first_seen=office.now - 99)
    lines = exported(await office.dead_letters(), office.ladder)
    await office.letters.discard([early], by="mia", why="x")
    await office.bury(office.match("m-2"), source_id="6-0", first_seen=office.now - 98)
    await restore(office.letters, lines, office.ladder)
    # When all are replayed, then it is the first
    assert outcomes(await office.replay()) == ["rated", "rated"]
    assert [event.match_id for event in await office.events()] == ["m-1", "m-2"]


def test_a_record_reads_what_it_wrote() -> None:
    history = LETTER.with_history(at=1, by="é", why="x", message="y")
    letter = replace(LETTER, history=history)
    assert ExportedDeadLetter.read(export_document(letter, "here"), "here").entry() == letter
    same = ExportedDeadLetter.read(export_document(LETTER, "here"), "here").fingerprint()
    assert same == ExportedDeadLetter.read(export_document(letter, "here"), "here").fingerprint()
    assert (
        same
        != ExportedDeadLetter.read(
            export_document(replace(LETTER, message=b"x"), "here"), "here"
        ).fingerprint()
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ladder": "there"}, 'ladder: "there" is not allowed; it was exported from another'),
        ({"ladder": None}, "ladder: "),
        ({"id": "7"}, 'id: "7" is not allowed: must be a stream id'),
        (
            {"id": "99999999999999999999-1"},
            'id: "99999999999999999999-1" is not allowed: must be a stream id',
        ),
        ({"source_id": "x"}, 'source_id: "x" is not allowed: must be a stream id'),
        ({"reason": "x"}, "reason: "),
        ({"attempts": -1}, "attempts: "),
        ({"attempts": "3"}, "attempts: "),
        ({"dead_at": 1.5}, "dead_at: "),
        ({"message": "x"}, "record: message or message_base64 is required, and not both"),
        ({"message_base64": None}, "record: message or message_base64 is required"),
        ({"message_base64": "*"}, "record: its message cannot be decoded"),
        ({"message_base64": None, "message": "\ud800"}, ""),
        ({"history": [1]}, "history.0: "),
    ],
)
def test_what_is_no_record_is_named(changes: dict[str, Any], sentence: str) -> None:
    data = {**export_document(LETTER, "here"), **changes}
    for line in (data, json.dumps(data).encode()):
        with pytest.raises(InvalidExport) as error:
            ExportedDeadLetter.read(line, "here")
        assert sentence in str(error.value)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b"null"])
def test_a_line_that_is_no_object_is_no_record(line: bytes) -> None:
    with pytest.raises(InvalidExport):
        ExportedDeadLetter.read(line, "here")
