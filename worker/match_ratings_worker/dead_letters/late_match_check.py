"""Whether a match that is older than the horizon was rated, as far as the ledger can tell.

Within the horizon a receipt tells; after it only the ledger does. Before a late match may be rated all
the same, one of two must say that it was not: the ledger, if it goes back to the day of the match, or
the operator.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import orjson
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from match_ratings import Cause, MatchFinished
from match_ratings.messages import Message
from match_ratings.stream_names import FIELD
from match_ratings_worker.dead_letters.letter_store import Setup
from match_ratings_worker.ledger.sqlite_archive import Archive
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.stream_ids import stream_id_ms
from match_ratings_worker.storage.stream_pages import entries
from match_ratings_worker.text import quote
from match_ratings_worker.units import CLOCK_SKEW_MS, WINDOW_MS, keep_games_ms

__all__ = ["Ledger"]

#: (cause, id of the match or tournament).
Effect = tuple[str, str]

#: Message kind -> the cause of its event.
_CAUSES: Final = {"match": Cause.MATCH.value, "tournament": Cause.PRIZE.value, "void": Cause.VOID.value}


class Ledger:
    """What the ledger says of some late messages: first `add` all, then `look`, then ask."""

    def __init__(self) -> None:
        self._wanted: set[Effect] = set()
        self._players: set[str] = set()
        #: The oldest message's finish, in ms.
        self._since: int | None = None
        #: The ledger is whole from this time on, in ms; 0 when nothing was ever taken out of it.
        self._whole_from = 0
        #: Effects that it shows -> their ledger ids.
        self._shown: dict[Effect, str] = {}
        #: Player -> when a rating from another rater was last put in, in ms.
        self._imported: dict[str, int] = {}
        #: Player -> match id -> finish in ms: games that count in the windows of the messages, and that
        #: are so old that Redis may no longer hold them.
        self._games: dict[str, dict[str, int]] = {}
        self._games_before = 0

    def add(self, message: Message) -> None:
        """Remembers what is to be looked for."""
        self._wanted.add(_effect_of(message))
        self._players.update(message.player_ids)
        self._since = min(message.finished_at, self._since or message.finished_at)

    async def look(self, redis: Redis, setup: Setup, now: int) -> None:
        """Looks through the ledger, and its archive if there is one, from a week before the oldest message.

        It takes seconds for a million events. Raises ArchiveError when the archive cannot be read.
        """
        if self._since is None:
            return
        keys = setup.keys
        self._whole_from, first = await _kept(redis, keys)
        self._games_before = now - keep_games_ms(setup.horizon)
        # A match may be a little ahead of the clock.
        oldest = f"{max(self._since - WINDOW_MS - CLOCK_SKEW_MS, 0)}-0"
        if setup.archive is not None and setup.archive.exists():
            await asyncio.to_thread(self._look_in_archive, setup.archive, setup.ladder, oldest, first)
        async for entry_id, fields in entries(redis, keys.outbox, oldest=oldest, page=500):
            self._note(entry_id, fields.get(FIELD.encode(), b""))

    def _look_in_archive(self, path: Path, ladder: str, oldest: str, first: int) -> None:
        with Archive(path) as archive:
            for entry_id, event in archive.iterate(ladder, oldest):
                self._note(entry_id, event)
            begin = next((_ms(entry_id) for entry_id, _ in archive.iterate(ladder)), None)
            # It joins on to what Redis has if its last event is one of those.
            if begin is not None and self._whole_from and _ms(archive.last(ladder)) >= first:
                self._whole_from = begin

    def _note(self, entry_id: str, raw: bytes) -> None:
        try:
            event: Any = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return
        if not isinstance(event, dict):
            return
        cause = event.get("cause")
        effect = (cause, event.get("tournament_id" if cause == Cause.PRIZE else "match_id"))
        if effect in self._wanted:
            self._shown[str(effect[0]), str(effect[1])] = entry_id
        names = [part.get("player") for part in event.get("players", ())]
        known = [name for name in names if name in self._players]
        if cause == Cause.IMPORT:
            self._imported.update((name, _ms(entry_id)) for name in known)
        elif cause == Cause.MATCH and event.get("finished_at", self._games_before) < self._games_before:
            for name in known:
                self._games.setdefault(name, {})[str(event.get("match_id"))] = event["finished_at"]
        elif cause == Cause.VOID:
            for name in known:
                self._games.get(name, {}).pop(str(event.get("match_id")), None)

    def against(self, message: Message) -> str:
        """Why this message must not be rated whatever anybody says; "" when nothing is known."""
        entry_id = self._shown.get(_effect_of(message))
        return f"the ledger shows its effect (entry {entry_id}); discard it" if entry_id else ""

    def doubt(self, message: Message) -> str:
        """Why the ledger cannot prove that this message had no effect; "" when it does prove it."""
        for name in message.player_ids:
            if self._imported.get(name, 0) > message.finished_at:
                return f"the rating of {quote(name)} was taken over from another rater after this match"
        if self._whole_from > message.finished_at - CLOCK_SKEW_MS:
            return "the ledger does not go back to the day of this match"
        return ""

    def forgotten_games(self, message: Message) -> list[tuple[str, str, int]]:
        """Player, match id and finish in ms of games that count in this match's windows, as far as Redis
        may no longer hold them.
        """
        if not isinstance(message, MatchFinished):
            return []
        closes = message.finished_at
        return [
            (name, match_id, time)
            for name in message.players
            for match_id, time in self._games.get(name, {}).items()
            if closes - WINDOW_MS <= time < closes
        ]


def _effect_of(message: Message) -> Effect:
    return _CAUSES[message.kind], message.effect_id


async def _kept(redis: Redis, keys: Keys) -> tuple[int, int]:
    """From when on the ledger in Redis is whole (0: nothing was taken out), and its first entry, in ms."""
    try:
        info: dict[str, Any] = await redis.xinfo_stream(keys.outbox)
    except ResponseError as error:
        if "no such key" in str(error):
            return 0, 0
        raise
    first = info["first-entry"]
    begin = _ms((first[0] if first else info["last-generated-id"]).decode())
    return (0 if info["entries-added"] == info["length"] else begin), begin


def _ms(entry_id: str) -> int:
    return stream_id_ms(entry_id)
