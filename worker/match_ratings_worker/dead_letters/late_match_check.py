"""Check in the ledger whether a match that is older than the horizon was rated.

Within the horizon a receipt answers that; after it only the ledger does. A late match may be rated all
the same if the ledger goes back to its day and does not show it, or the operator states that it was not.
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
from match_ratings_worker.ledger import Archive
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import Keys, LadderHandle, entries, stream_id_ms
from match_ratings_worker.time_units import CLOCK_SKEW_MS, WINDOW_MS

#: Message kind -> cause of its event.
_CAUSES: Final = {"match": Cause.MATCH.value, "tournament": Cause.PRIZE.value, "void": Cause.VOID.value}
#: Cause, and id of the match or tournament.
Effect = tuple[str, str]


class LateMatchCheck:
    """A ledger search for late messages: first `add` all, then `read_ledger` once, then ask about each."""

    def __init__(self) -> None:
        self._wanted: set[Effect] = set()
        self._players: set[str] = set()
        #: Finish of the oldest message, in ms.
        self._since: int | None = None
        #: The ledger is complete from this time on, in ms; 0 when nothing was ever trimmed.
        self._complete_from = 0
        #: Wanted effects found in the ledger -> ledger ids.
        self._found: dict[Effect, str] = {}
        #: Player -> when a rating from another rater was last imported, in ms.
        self._imported: dict[str, int] = {}
        #: Player -> match id -> finish in ms of games that count in the messages' windows and are so old
        #: that Redis may have dropped them.
        self._games: dict[str, dict[str, int]] = {}
        self._games_before = 0

    def add(self, message: Message) -> None:
        """Add a message to look up."""
        self._wanted.add(_effect_of(message))
        self._players.update(message.player_ids)
        self._since = min(message.finished_at, self._since or message.finished_at)

    async def read_ledger(self, ladder: LadderHandle, now: int) -> None:
        """Read the ledger and its archive from a week before the oldest message; `now` in ms.

        Takes seconds for a million events. Raises ArchiveError when the archive cannot be read.
        """
        if self._since is None:
            return
        self._complete_from, first = await _redis_begin(ladder.redis, ladder.keys)
        self._games_before = now - ladder.keep_games_ms
        # A match may finish a little ahead of the clock that made its ledger id.
        oldest = f"{max(self._since - WINDOW_MS - CLOCK_SKEW_MS, 0)}-0"
        if ladder.archive is not None and ladder.archive.exists():
            await asyncio.to_thread(self._read_archive, ladder.archive, ladder.name, oldest, first)
        async for entry_id, fields in entries(ladder.redis, ladder.keys.outbox, oldest=oldest, page=500):
            self._note(entry_id, fields.get(FIELD.encode(), b""))

    def _read_archive(self, path: Path, ladder: str, oldest: str, first: int) -> None:
        with Archive(path) as archive:
            for entry_id, event in archive.iterate(ladder, oldest):
                self._note(entry_id, event)
            begin = next((stream_id_ms(entry_id) for entry_id, _ in archive.iterate(ladder)), None)
            # The archive leaves no gap if its last event is still in Redis.
            if begin is not None and self._complete_from and stream_id_ms(archive.last(ladder)) >= first:
                self._complete_from = begin

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
            self._found[str(effect[0]), str(effect[1])] = entry_id
        names = [part.get("player") for part in event.get("players", ())]
        known = [name for name in names if name in self._players]
        if cause == Cause.IMPORT:
            self._imported.update((name, stream_id_ms(entry_id)) for name in known)
        elif cause == Cause.MATCH and event.get("finished_at", self._games_before) < self._games_before:
            for name in known:
                self._games.setdefault(name, {})[str(event.get("match_id"))] = event["finished_at"]
        elif cause == Cause.VOID:
            for name in known:
                self._games.get(name, {}).pop(str(event.get("match_id")), None)

    def contradiction(self, message: Message) -> str:
        """Why this message must not be rated, whatever the operator states; empty when nothing is known."""
        entry_id = self._found.get(_effect_of(message))
        return f"the ledger shows its effect (entry {entry_id}); discard it" if entry_id else ""

    def uncertainty(self, message: Message) -> str:
        """Why the ledger cannot prove that this message had no effect; empty when it proves it."""
        for name in message.player_ids:
            if self._imported.get(name, 0) > message.finished_at:
                return f"the rating of {quote(name)} was taken over from another rater after this match"
        if self._complete_from > message.finished_at - CLOCK_SKEW_MS:
            return "the ledger does not go back to the day of this match"
        return ""

    def expired_games(self, message: Message) -> list[tuple[str, str, int]]:
        """Player, match id and finish in ms of games in this match's windows that Redis may have dropped."""
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


async def _redis_begin(redis: Redis, keys: Keys) -> tuple[int, int]:
    """From when on the ledger in Redis is complete (0: never trimmed), and its first entry's time, in ms."""
    try:
        info: dict[str, Any] = await redis.xinfo_stream(keys.outbox)
    except ResponseError as error:
        if "no such key" in str(error):
            return 0, 0
        raise
    first = info["first-entry"]
    begin = stream_id_ms((first[0] if first else info["last-generated-id"]).decode())
    return (0 if info["entries-added"] == info["length"] else begin), begin
