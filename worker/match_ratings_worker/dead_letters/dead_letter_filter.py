"""Select dead letters by id, reason, time, player or match, and sort them as their messages first came."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import orjson

from match_ratings_worker.storage import DeadLetterEntry, is_stream_id, parse_stream_id

_MAX_UINT64 = 2**64 - 1
_SORT_KEY = struct.Struct(">QQQQQ")


def _numbers(stream_id: str) -> tuple[int, int]:
    return parse_stream_id(stream_id) if is_stream_id(stream_id) else (0, 0)


def sort_key(letter: DeadLetterEntry) -> bytes:
    """40 bytes that sort by when the message first entered the inbox, and end with the letter's id.

    A message that was replayed and died again has a new inbox id, but keeps its first one's place.
    """
    source, own = _numbers(letter.source_id), _numbers(letter.id)
    first_seen = letter.first_seen or source[0] or own[0]
    return _SORT_KEY.pack(min(max(first_seen, 0), _MAX_UINT64), *source, *own)


def id_of_sort_key(key: bytes) -> str:
    """The letter's id from its sort key."""
    numbers = _SORT_KEY.unpack(key)
    return f"{numbers[3]}-{numbers[4]}"


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A selection of dead letters; an empty field matches all."""

    ids: tuple[str, ...] = ()
    reasons: frozenset[str] = frozenset()
    #: Became dead letters at this time or later, and before this time, in ms.
    since: int | None = None
    before: int | None = None
    player: str | None = None
    #: Id of a match or tournament.
    match_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it matches every dead letter."""
        return self == DeadLetterFilter()

    def matches(self, letter: DeadLetterEntry) -> bool:
        """Whether the letter is selected, `ids` aside."""
        if self.reasons and letter.reason not in self.reasons:
            return False
        died = letter.dead_at or _numbers(letter.id)[0]
        if self.since is not None and died < self.since:
            return False
        if self.before is not None and died >= self.before:
            return False
        if self.player is None and self.match_id is None:
            return True
        return self._mentioned_in(letter.message)

    def _mentioned_in(self, message: bytes) -> bool:
        found = _player_and_match_ids(message)
        if found is None:  # unreadable: search the bytes
            wanted = [text for text in (self.player, self.match_id) if text is not None]
            return all(text.encode("utf-8", "surrogateescape") in message for text in wanted)
        players, match_id = found
        return (self.player is None or self.player in players) and self.match_id in (None, match_id)


def _player_and_match_ids(message: bytes) -> tuple[list[str], str] | None:
    """The players a message names, and its match or tournament id; None when it is no JSON object."""
    try:
        data: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(data, dict):
        return None
    players: list[str] = []
    for name in ("players", "podium"):
        value = data.get(name)
        players += [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    if isinstance(data.get("winner"), str):
        players.append(data["winner"])
    match_id = data.get("match_id", data.get("tournament_id"))
    return players, match_id if isinstance(match_id, str) else ""
