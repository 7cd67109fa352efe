"""The archive's file: what is found in it and how, and which files are refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from match_ratings_worker.ledger import Archive, ArchiveError
from tests.support.migration import payload


def test_events_are_found_by_place_match_and_player(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db", writable=True) as archive:
        events = [(f"{1000 + n // 3}-{n % 3}", payload(n, "ada", f"p-{n % 4}")) for n in range(12)]
        void = ("2000-0", payload(3, "ada", "p-3", cause="void"))
        prize = ("2000-12", payload(99, "eve", cause="prize", match_id=None, tournament_id="t-1"))
        assert archive.append("x", events) == 12
        assert archive.append("y", [("1000-5", payload(3, "ada"))]) == 1
        assert archive.append("x", [*events[5:], void, prize]) == 2  # what is there already is left out
        assert (archive.last("x"), archive.last("y"), archive.last("z")) == ("2000-12", "1000-5", "0-0")
        assert (archive.count("x"), archive.count("z")) == (14, 0)
        assert list(archive.iterate("x")) == [*events, void, prize]
        assert list(archive.iterate("x", events[4][0])) == [*events[5:], void, prize]
        assert archive.find("x", "m-3") == [events[3], void]
        assert archive.find("x", "t-1") == [prize]
        assert archive.find("x", "m") == []
        assert archive.at("x", "1001-2") == events[5][1]
        assert archive.at("x", "1001-9") is None
        mine = [event for event in [*events, void] if b'"p-3"' in event[1]]
        assert list(archive.of_player("x", "p-3")) == mine[::-1]
        assert list(archive.of_player("x", "p-3", events[7][0])) == [events[3]]
        assert list(archive.of_player("x", "nobody")) == []


def test_many_events_are_read_in_pages(tmp_path: Path) -> None:
    events = [(f"{n}-0", payload(n, "ada")) for n in range(1, 2501)]
    with Archive(tmp_path / "a.db", writable=True) as archive:
        archive.append("x", events)
    with Archive(tmp_path / "a.db") as archive:
        assert list(archive.iterate("x")) == events
        assert list(archive.of_player("x", "ada")) == events[::-1]


def test_what_is_no_event_is_kept_as_it_is(tmp_path: Path) -> None:
    odd = [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"players": 7}',
        '{"cause": "match", "players": [{"player": "é"}]}'.encode(),
    ]
    events = [(f"{n}-1", raw) for n, raw in enumerate(odd, 1)]
    with Archive(tmp_path / "a.db", writable=True) as archive:
        archive.append("x", events)
        assert list(archive.iterate("x")) == events
        assert list(archive.of_player("x", "é")) == [events[-1]]


def test_it_can_be_read_with_sql(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db", writable=True) as archive:
        archive.append("x", [("1700000000000-3", payload(1, "ada", "bob"))])
        with closing(sqlite3.connect(tmp_path / "a.db")) as other, other:  # while it is open elsewhere
            sql = "SELECT id, cause, match_id, json_extract(payload, '$.players[1].player') FROM events"
            assert other.execute(sql).fetchall() == [("1700000000000-3", "match", "m-1", "bob")]


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 20)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE things (x)")
    newer = tmp_path / "newer.db"
    Archive(newer, writable=True).close()
    with closing(sqlite3.connect(newer)) as other, other:
        other.execute("PRAGMA user_version = 9")
    for name, problem in (
        ("text", "cannot be used: file is not a database"),
        ("other.db", "is the database of another program, not an archive"),
        ("newer.db", "has archive version 9; this program knows 1"),
        ("none/a.db", "cannot be used: unable to open database file"),
        (".", "cannot be used: unable to open database file"),
    ):
        with pytest.raises(ArchiveError, match=problem):
            Archive(tmp_path / name, writable=True)
    with pytest.raises(ArchiveError, match="unable to open"):
        Archive(tmp_path / "none.db")


def test_each_file_has_an_id_of_its_own(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db", writable=True) as one, Archive(tmp_path / "b.db", writable=True) as two:
        assert one.id != two.id
        with Archive(tmp_path / "a.db", writable=True) as again, Archive(tmp_path / "a.db") as reader:
            assert one.id == again.id == reader.id
