"""Whether a match that is older than the horizon was rated, as far as the ledger can tell.

Within the horizon a receipt tells; after it only the ledger does. Before a late match may be rated all
the same, one of two must say that it was not: the ledger, if it goes back to the day of the match, or
the operator.
"""

from __future__ import annotations

from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from contracts import Cause, MatchVoided, TournamentFinished
from contracts.names import FIELD
from worker.keys import Keys
from worker.queries.streams import entries
from worker.validation import CLOCK_SKEW_MS, Message, quote

__all__ = ["Ledger"]

#: (cause, id of the match or tournament).
Effect = tuple[str, str]


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

    def add(self, message: Message) -> None:
        """Remembers what is to be looked for."""
        self._wanted.add(_effect_of(message))
        self._players.update(_names(message))
        self._since = min(message.finished_at, self._since or message.finished_at)

    async def look(self, redis: Redis, keys: Keys) -> None:
        """Looks through the ledger from the oldest message's day on: seconds for a million events."""
        if self._since is None:
            return
        self._whole_from = await _whole_from(redis, keys)
        oldest = f"{max(self._since - CLOCK_SKEW_MS, 0)}-0"  # a match may be that much ahead of the clock
        async for entry_id, fields in entries(redis, keys.outbox, oldest=oldest, page=500):
            try:
                event: Any = orjson.loads(fields.get(FIELD.encode(), b""))
            except orjson.JSONDecodeError:
                continue
            if isinstance(event, dict):
                self._note(entry_id, event)

    def _note(self, entry_id: str, event: dict[str, Any]) -> None:
        cause = event.get("cause")
        effect = (cause, event.get("tournament_id" if cause == Cause.PRIZE else "match_id"))
        if effect in self._wanted:
            self._shown[str(effect[0]), str(effect[1])] = entry_id
        elif cause == Cause.IMPORT:
            at = int(entry_id.partition("-")[0])
            names = [part.get("player") for part in event.get("players", ())]
            self._imported.update((name, at) for name in names if name in self._players)

    def against(self, message: Message) -> str:
        """Why this message must not be rated whatever anybody says; "" when nothing is known."""
        entry_id = self._shown.get(_effect_of(message))
        return f"the ledger shows its effect (entry {entry_id}); discard it" if entry_id else ""

    def doubt(self, message: Message) -> str:
        """Why the ledger cannot prove that this message had no effect; "" when it does prove it."""
        for name in _names(message):
            if self._imported.get(name, 0) > message.finished_at:
                return f"the rating of {quote(name)} was taken over from another rater after this match"
        if self._whole_from > message.finished_at - CLOCK_SKEW_MS:
            return "the ledger does not go back to the day of this match"
        return ""


def _effect_of(message: Message) -> Effect:
    if isinstance(message, TournamentFinished):
        return Cause.PRIZE.value, message.tournament_id
    if isinstance(message, MatchVoided):
        return Cause.VOID.value, message.match_id
    return Cause.MATCH.value, message.match_id


def _names(message: Message) -> tuple[str, ...]:
    return message.podium if isinstance(message, TournamentFinished) else message.players


async def _whole_from(redis: Redis, keys: Keys) -> int:
    try:
        info: dict[str, Any] = await redis.xinfo_stream(keys.outbox)
    except ResponseError as error:
        if "no such key" in str(error):
            return 0
        raise
    if info["entries-added"] == info["length"]:
        return 0
    first = info["first-entry"]
    return int((first[0] if first else info["last-generated-id"]).partition(b"-")[0])
