"""The fields of a dead letter, written and read."""

from __future__ import annotations

from dataclasses import replace

from match_ratings import DeadLetter
from match_ratings_worker.storage.dead_letter_format import DeadLetterEntry, history_items

LETTER = DeadLetterEntry("7-1", b"\xff", "invalid", "x", "5-0", 3, 1_700_000_000_000, 1_700_000_000_001)


def stored(letter: DeadLetterEntry) -> dict[bytes, bytes]:
    """The fields as Redis returns them."""
    return {
        name.encode(): value if isinstance(value, bytes) else str(value).encode()
        for name, value in letter.fields().items()
    }


def test_its_fields_are_those_of_the_published_model() -> None:
    fields = replace(LETTER, history="[]").fields()
    assert {*fields, "id"} == set(DeadLetter.model_fields)


def test_what_was_written_is_read() -> None:
    assert DeadLetterEntry.from_entry(("7-1", stored(LETTER))) == LETTER


def test_fields_of_strangers_are_read_as_empty() -> None:
    fields = {b"attempts": b"many", b"reason": b"\xff"}
    read = DeadLetterEntry.from_entry(("7-1", fields))
    assert read == DeadLetterEntry("7-1", b"", "\\xff", "", "", 0, 0, 0)


def test_a_history_grows_and_what_nobody_of_ours_wrote_stays_in_it() -> None:
    once = LETTER.with_history(at=1, by="mia", why="x", cube=2)
    assert once.isascii() and history_items(once) == [{"at": 1, "who": "mia", "why": "x", "cube": 2}]
    for strange in ("{", "[1]", "{}"):
        assert history_items(strange) == [{"unreadable": strange}]
