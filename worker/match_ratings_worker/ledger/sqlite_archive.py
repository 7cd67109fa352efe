"""The archive: a SQLite file of the events that left, or will leave, the ledgers in Redis.

    events(n, ladder, ms, seq, id, cause, match_id, tournament_id, payload)
    players(ladder, player, n)        the events that a player is in

An event's id is its stream id in the ledger, `ms`-`seq`; within a ladder `n` grows in the same order.
`payload` is the event's JSON, unchanged. Any program may read the file while a worker writes to it.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import orjson

from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import parse_stream_id

#: An event as stored: its id in the ledger, and its JSON.
StoredEvent = tuple[str, bytes]

#: Marks the file as an archive; "rata" in ASCII.
_APPLICATION_ID: Final = 0x72617461
_VERSION: Final = 1
#: How long to wait for another process that writes, in seconds.
_BUSY_SECONDS: Final = 10.0
#: Events read in one step.
_PAGE: Final = 1000

_SCHEMA: Final = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE events (n INTEGER PRIMARY KEY, ladder TEXT NOT NULL, ms INTEGER NOT NULL, "
    "seq INTEGER NOT NULL, id TEXT GENERATED ALWAYS AS (ms || '-' || seq) VIRTUAL, cause TEXT NOT NULL, "
    "match_id TEXT, tournament_id TEXT, payload TEXT NOT NULL, UNIQUE (ladder, ms, seq))",
    "CREATE INDEX events_by_match ON events (ladder, match_id) WHERE match_id IS NOT NULL",
    "CREATE INDEX events_by_tournament ON events (ladder, tournament_id) WHERE tournament_id IS NOT NULL",
    "CREATE TABLE players (ladder TEXT NOT NULL, player TEXT NOT NULL, n INTEGER NOT NULL, "
    "PRIMARY KEY (ladder, player, n)) WITHOUT ROWID",
)


class ArchiveError(Exception):
    """Raised when the file cannot be used; the text is one sentence that names it."""


class Archive:
    """An open archive. Every method raises ArchiveError when SQLite fails.

    Threads may share it if they take turns.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Opens the file to read; with `writable` to write too, and creates it when missing."""
        self.path = path
        with self._errors():
            mode = "rwc" if writable else "ro"
            self._file = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self._errors():
                if writable:
                    self._file.execute("PRAGMA journal_mode = WAL")
                    # Each commit is on the disk before anything is trimmed because of it.
                    self._file.execute("PRAGMA synchronous = FULL")
                    self._create_tables()
                self._check()
                found = self._file.execute("SELECT value FROM about WHERE name = 'id'").fetchone()
            #: Random; distinguishes this file from every other.
            self.id = str(found[0])
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Closes the file; afterwards every other method raises."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def last(self, ladder: str) -> str:
        """The id of a ladder's last event, "0-0" when there is none."""
        with self._errors():
            found = self._file.execute(
                "SELECT id FROM events WHERE ladder = ? ORDER BY ms DESC, seq DESC LIMIT 1", (ladder,)
            ).fetchone()
        return str(found[0]) if found else "0-0"

    def count(self, ladder: str) -> int:
        """Number of events of a ladder."""
        with self._errors():
            found = self._file.execute("SELECT count(*) FROM events WHERE ladder = ?", (ladder,)).fetchone()
        return int(found[0])

    def append(self, ladder: str, events: Iterable[StoredEvent]) -> int:
        """Adds events in ledger order and returns how many; they are then on disk.

        Events up to the last archived one are skipped.
        """
        with self._errors(), self._transaction():
            last = parse_stream_id(self.last(ladder))
            n = int(self._file.execute("SELECT coalesce(max(n), 0) FROM events").fetchone()[0])
            rows, players = [], []
            for ledger_id, payload in events:
                place = parse_stream_id(ledger_id)
                if place <= last:
                    continue
                last, n = place, n + 1
                cause, match_id, tournament_id, names = _index_fields(payload)
                rows.append((n, ladder, *place, cause, match_id, tournament_id, _storable(payload)))
                players += [(ladder, name, n) for name in names]
            self._file.executemany(
                "INSERT INTO events (n, ladder, ms, seq, cause, match_id, tournament_id, payload) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._file.executemany("INSERT OR IGNORE INTO players VALUES (?, ?, ?)", players)
        return len(rows)

    def iterate(self, ladder: str, after: str = "0-0") -> Iterator[StoredEvent]:
        """The events of a ladder after an id, oldest first."""
        place = parse_stream_id(after)
        while True:
            page = self._rows(
                "SELECT id, payload FROM events WHERE ladder = ? AND (ms, seq) > (?, ?) "
                "ORDER BY ms, seq LIMIT ?",
                (ladder, *place, _PAGE),
            )
            yield from page
            if len(page) < _PAGE:
                return
            place = parse_stream_id(page[-1][0])

    def find(self, ladder: str, effect_id: str) -> list[StoredEvent]:
        """The events of a match or tournament, oldest first: its rating, and perhaps its void."""
        return self._rows(
            "SELECT id, payload FROM events WHERE n IN ("
            "SELECT n FROM events WHERE ladder = ? AND match_id = ? UNION "
            "SELECT n FROM events WHERE ladder = ? AND tournament_id = ?) ORDER BY ms, seq",
            (ladder, effect_id, ladder, effect_id),
        )

    def at(self, ladder: str, ledger_id: str) -> bytes | None:
        """The JSON of the event with this id; None when it is not archived."""
        found = self._rows(
            "SELECT id, payload FROM events WHERE ladder = ? AND ms = ? AND seq = ?",
            (ladder, *parse_stream_id(ledger_id)),
        )
        return found[0][1] if found else None

    def of_player(self, ladder: str, player: str, before: str | None = None) -> Iterator[StoredEvent]:
        """The events that a player is in, newest first; with `before` only those before that id."""
        ms, seq = parse_stream_id(before) if before is not None else (2**63 - 1, 0)
        found = self._rows_of_player(ladder, player, ms, seq, 2**63 - 1)
        while found:
            yield from ((ledger_id, payload) for ledger_id, payload, _ in found)
            found = self._rows_of_player(ladder, player, ms, seq, found[-1][2])

    def _rows_of_player(
        self, ladder: str, player: str, ms: int, seq: int, before: int
    ) -> list[tuple[str, bytes, int]]:
        with self._errors():
            found = self._file.execute(
                "SELECT id, payload, n FROM players JOIN events USING (n) WHERE players.ladder = ? "
                "AND player = ? AND n < ? AND (ms, seq) < (?, ?) ORDER BY n DESC LIMIT 100",
                (ladder, player, before, ms, seq),
            ).fetchall()
        return [(ledger_id, _bytes(payload), n) for ledger_id, payload, n in found]

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[StoredEvent]:
        with self._errors():
            found = self._file.execute(sql, values).fetchall()
        return [(ledger_id, _bytes(payload)) for ledger_id, payload in found]

    def _create_tables(self) -> None:
        """Creates the tables in a new file, all or none."""
        with self._transaction():
            if self._file.execute("PRAGMA application_id").fetchone()[0] == 0 and not self._tables():
                for statement in _SCHEMA:
                    self._file.execute(statement)
                self._file.execute("INSERT INTO about VALUES ('id', ?)", (secrets.token_hex(8),))
                self._file.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._file.execute(f"PRAGMA user_version = {_VERSION}")

    def _tables(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def _check(self) -> None:
        if self._file.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            msg = f"{_quoted(self.path)} is the database of another program, not an archive"
            raise ArchiveError(msg)
        version = self._file.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION:
            msg = f"{_quoted(self.path)} has archive version {version}; this program knows {_VERSION}"
            raise ArchiveError(msg)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns SQLite's errors into ArchiveError."""
        try:
            yield
        except sqlite3.Error as error:
            msg = f"the archive {_quoted(self.path)} cannot be used: {str(error)[:200]}"
            raise ArchiveError(msg) from None


def _index_fields(payload: bytes) -> tuple[str, str | None, str | None, list[str]]:
    """Cause, match id, tournament id and players of an event; empty for an entry that is not one."""
    try:
        event = orjson.loads(payload)
        names = [str(part["player"]) for part in event["players"]]
        return str(event["cause"]), _id(event, "match_id"), _id(event, "tournament_id"), names
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return "", None, None, []


def _id(event: dict[str, object], name: str) -> str | None:
    return None if event.get(name) is None else str(event[name])


def _storable(payload: bytes) -> str | bytes:
    """Text where possible, so that SQL can read it as JSON."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def _bytes(payload: str | bytes) -> bytes:
    return payload if isinstance(payload, bytes) else payload.encode()


def _quoted(path: Path) -> str:
    return quote(str(path), 200)
