"""Which dead letters are meant, and the order in which they entered the inbox at first."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import orjson

from match_ratings_worker.queries import DeadLetterEntry
from match_ratings_worker.storage.stream_ids import is_stream_id, parse_stream_id

__all__ = ["Filter", "about", "id_of", "order_key"]

_TOP = 2**64 - 1
_ORDER = struct.Struct(">QQQQQ")


def _numbers(stream_id: str) -> tuple[int, int]:
    if not is_stream_id(stream_id):
        return 0, 0
    return parse_stream_id(stream_id)


def order_key(letter: DeadLetterEntry) -> bytes:
    """40 bytes that sort as the messages first entered the inbox, and end with the letter's id.

    A message that was replayed and died again has a new id in the inbox, but is as old as before.
    """
    source, own = _numbers(letter.source_id), _numbers(letter.id)
    first_seen = letter.first_seen or source[0] or own[0]
    return _ORDER.pack(min(max(first_seen, 0), _TOP), *source, *own)


def id_of(key: bytes) -> str:
    """The letter's id in such a key."""
    numbers = _ORDER.unpack(key)
    return f"{numbers[3]}-{numbers[4]}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant; what is empty or None leaves all in."""

    ids: tuple[str, ...] = ()
    reasons: frozenset[str] = frozenset()
    #: Died at this time or later, and before this time, in ms.
    since: int | None = None
    before: int | None = None
    player: str | None = None
    #: The id of a match or tournament.
    match_id: str | None = None

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return self == Filter()

    def takes(self, letter: DeadLetterEntry) -> bool:
        """Whether this letter is meant. The ids are not looked at."""
        if self.reasons and letter.reason not in self.reasons:
            return False
        died = letter.dead_at or _numbers(letter.id)[0]
        if self.since is not None and died < self.since:
            return False
        if self.before is not None and died >= self.before:
            return False
        if self.player is None and self.match_id is None:
            return True
        names, effect = about(letter.message)
        return self._is_about(letter.message, names, effect)

    def _is_about(self, message: bytes, names: tuple[str, ...] | None, effect: str) -> bool:
        if names is None:  # not JSON: whether the bytes hold the id
            wanted = [text for text in (self.player, self.match_id) if text is not None]
            return all(text.encode("utf-8", "surrogateescape") in message for text in wanted)
        return (self.player is None or self.player in names) and self.match_id in (None, effect)


def about(message: bytes) -> tuple[tuple[str, ...] | None, str]:
    """The players that a message names, and its match or tournament id; None when it is not JSON."""
    try:
        data: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None, ""
    if not isinstance(data, dict):
        return None, ""
    found: list[str] = []
    for name in ("players", "podium"):
        value = data.get(name)
        found += [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    if isinstance(data.get("winner"), str):
        found.append(data["winner"])
    effect = data.get("match_id", data.get("tournament_id"))
    return tuple(found), effect if isinstance(effect, str) else ""
