"""Dead letters as entries of their stream: the one place that knows the fields of an entry.

The names are those of `match_ratings.DeadLetter`. `commit_batch.lua` writes the
same fields for what a worker cannot rate.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Self

from redis.asyncio import Redis

from match_ratings import Reason
from match_ratings_worker.time_units import now_ms

from .lua_scripts import Script
from .pipelined_connection import ClientExecutor
from .redis_keys import Keys
from .stream_pages import Entry, entries, whole

#: Entries read in one step; a message is at most 16 KiB, unless its size is what is wrong with it.
_PAGE: Final = 100

_add = Script("add_dead_letter")


@dataclass(frozen=True, slots=True)
class DeadLetterEntry:
    """A dead letter as stored; a field that is missing or is no number is empty or 0."""

    id: str
    #: The message's bytes, unchanged.
    message: bytes
    #: Reason code, one of `match_ratings.Reason` unless somebody else wrote the entry.
    reason: str
    #: What is wrong, one sentence.
    detail: str
    #: The message's id in the inbox; empty when it came by a job.
    source_id: str
    #: How often workers had claimed it.
    attempts: int
    #: When it first entered the inbox and when it became a dead letter, in ms.
    first_seen: int
    dead_at: int
    #: JSON array of the edits and forced replays, oldest first; empty when there were none.
    history: str = ""

    @classmethod
    def from_entry(cls, entry: Entry) -> Self:
        """Read a stream entry; never fail, whatever its fields hold."""
        entry_id, fields = entry

        def text(name: bytes) -> str:
            return fields.get(name, b"").decode("utf-8", "backslashreplace")

        return cls(
            id=entry_id,
            message=fields.get(b"message", b""),
            reason=text(b"reason"),
            detail=text(b"detail"),
            source_id=text(b"source_id"),
            attempts=whole(fields.get(b"attempts")),
            first_seen=whole(fields.get(b"first_seen")),
            dead_at=whole(fields.get(b"dead_at")),
            history=text(b"history"),
        )

    def fields(self) -> dict[str, Any]:
        """The fields to store, without the id, and without an empty history."""
        found: dict[str, Any] = {
            "message": self.message,
            "reason": self.reason,
            "detail": self.detail,
            "source_id": self.source_id,
            "attempts": self.attempts,
            "first_seen": self.first_seen,
            "dead_at": self.dead_at,
        }
        return {**found, "history": self.history} if self.history else found

    def with_history(self, *, at: int, by: str, why: str, **item: Any) -> str:
        """This letter's history with one item more, as ASCII JSON; `at` in ms."""
        added = {"at": at, "who": by, "why": why, **item}
        return json.dumps([*history_items(self.history), added], ensure_ascii=True)


def history_items(history: str) -> list[dict[str, Any]]:
    """The items of a stored history; one that cannot be read becomes a single item `unreadable`."""
    if not history:
        return []
    try:
        found = json.loads(history)
    except (ValueError, RecursionError):
        return [{"unreadable": history}]
    if isinstance(found, list) and all(isinstance(item, dict) for item in found):
        return found
    return [{"unreadable": history}]


def message_fields(message: bytes) -> dict[str, str]:
    """A message for JSON: `message` as text, or `message_base64` when it is not UTF-8."""
    try:
        return {"message": message.decode()}
    except UnicodeDecodeError:
        return {"message_base64": base64.b64encode(message).decode()}


async def add_dead_letter(redis: Redis, keys: Keys, raw: bytes, reason: Reason, detail: str) -> None:
    """Add a dead letter for a message that came by a job, and count it, in one step.

    `detail` is one sentence about what is wrong. Raises RedisError.
    """
    now = now_ms()
    letter = DeadLetterEntry("", raw, reason.value, detail, "", attempts=1, first_seen=now, dead_at=now)
    fields = chain.from_iterable(letter.fields().items())
    await _add(ClientExecutor(redis), (keys.dead_letters, keys.counts), (reason.value, *fields))


async def read_dead_letters(redis: Redis, keys: Keys, *, page: int = _PAGE) -> AsyncIterator[DeadLetterEntry]:
    """Yield the dead letters, newest first."""
    async for entry in entries(redis, keys.dead_letters, page=page, reverse=True):
        yield DeadLetterEntry.from_entry(entry)
