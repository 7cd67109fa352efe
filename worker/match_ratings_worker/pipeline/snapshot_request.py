"""Builds the request to read_batch.lua for a batch, and parses its reply into a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from match_ratings import MatchVoided
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage import Keys, Receipt, parse_state, stored_fields
from match_ratings_worker.time_units import WINDOW_MS

from .message_batch import BatchSnapshot, InboxEntry, PlayerState


class SnapshotRequest:
    """The players, windows, receipts and events that a batch needs, each once."""

    def __init__(self, system: RatingSystem, keys: Keys) -> None:
        self._system, self._keys = system, keys
        #: Player -> ids of the line to read.
        self._depth: dict[str, int] = {}
        #: The lines of players with one exclusive message, which need not be read.
        self._known_lines: dict[str, list[str]] = {}
        self._windows: list[tuple[str, str, str]] = []
        self._window_keys: list[tuple[str, str]] = []
        self._receipts: list[str] = []
        #: Entry id of a void -> the receipt key of its match.
        self._voided: dict[str, str] = {}
        #: Receipt key and ledger id of each voided match.
        self._events: list[tuple[str, str]] = []

    def add(self, entry: InboxEntry) -> None:
        """Ask for the data of one message."""
        if not entry.exclusive:
            self._receipts.append(entry.receipt)
        message = entry.message
        counts_games = message is not None and not isinstance(message, MatchVoided)
        if isinstance(message, MatchVoided):
            key = self._voided[entry.id] = self._keys.receipt(message.match_id)
            self._events.append((key, message.ledger_id or ""))
        elif message is not None:
            # As texts: Lua would print numbers digit by digit, twice for each match.
            opens, closes = str(message.finished_at - WINDOW_MS), f"({message.finished_at}"
        for name in entry.players:
            if entry.exclusive and name not in self._depth:
                self._depth[name] = 0
                self._known_lines[name] = [entry.id]
            else:
                self._depth[name] = (self._depth.get(name) or len(self._known_lines.pop(name, ()))) + 1
            if counts_games:
                self._windows.append((name, opens, closes))
                self._window_keys.append((entry.id, name))

    def add_players(self, names: Iterable[str]) -> None:
        """Ask for players without their lines."""
        for name in names:
            self._depth[name], self._known_lines[name] = 0, []

    def to_json(self) -> bytes:
        """The argument of the script."""
        return orjson.dumps(
            {
                "fields": stored_fields(self._system),
                "players": list(self._depth.items()),
                "windows": self._windows,
                "receipts": self._receipts,
                "events": self._events,
            }
        )

    def parse(self, reply: Any) -> BatchSnapshot:
        """Parse the script's reply to this request."""
        now, players, windows, texts, events = reply
        receipts = {key: Receipt.parse(text) for key, text in zip(self._receipts, texts, strict=True)}
        for key, (text, _) in zip(self._voided.values(), events, strict=True):
            receipts[key] = Receipt.parse(text)
        return BatchSnapshot(
            now=now,
            players={
                name: parse_player(values, self._known_lines.get(name, line), self._system)
                for name, (line, values) in zip(self._depth, players, strict=True)
            },
            windows={
                key: count if isinstance(count, int) else count[1:].decode("utf-8", "replace")
                for key, count in zip(self._window_keys, windows, strict=True)
            },
            receipts=receipts,
            events={
                entry_id: event for entry_id, (_, event) in zip(self._voided, events, strict=True) if event
            },
            match_receipts=self._voided,
        )


def parse_player(values: Any, line: Sequence[Any], system: RatingSystem) -> PlayerState:
    """A player from the values of `stored_fields`, or from an error text, and the ids of the line."""
    ids = [item.decode() if isinstance(item, bytes) else item for item in line]
    if isinstance(values, bytes):
        return PlayerState(system.initial(), 0, ids, fault=values[1:].decode("utf-8", "replace"))
    try:
        return PlayerState(parse_state(values, system) or system.initial(), int(values[1] or 0), ids)
    except ValueError as error:
        return PlayerState(system.initial(), 0, ids, fault=str(error))
