"""A ladder's dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from match_ratings.stream_names import FIELD
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.stream_pages import Entry, entries, whole

__all__ = ["Letter", "letter_of", "letters"]

#: Dead letters that are read in one step; a message has 16 KiB at most when it is not itself the fault.
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as its stream holds it; what is missing, or not a number, is empty or 0 here."""

    id: str
    message: bytes
    reason: str
    #: What is wrong, one sentence.
    detail: str
    #: The message's id in the inbox; empty when it came by a job.
    source_id: str
    #: How often a worker had claimed it.
    attempts: int
    #: Times in ms.
    first_seen: int
    dead_at: int
    #: What people did to it, oldest first: a JSON array; empty when nobody did anything.
    history: str = ""


async def letters(
    redis: Redis, keys: Keys, reasons: Iterable[str] = (), *, page: int = _PAGE
) -> AsyncIterator[Letter]:
    """The dead letters, newest first; only those with one of the `reasons` when any are given."""
    wanted = frozenset(reasons)
    async for entry in entries(redis, keys.dead_letters, page=page, reverse=True):
        letter = letter_of(entry)
        if not wanted or letter.reason in wanted:
            yield letter


def letter_of(entry: Entry) -> Letter:
    """A dead letter from its stream entry."""
    entry_id, fields = entry

    def text(name: bytes) -> str:
        return fields.get(name, b"").decode("utf-8", "backslashreplace")

    return Letter(
        id=entry_id,
        message=fields.get(FIELD.encode(), b""),
        reason=text(b"reason"),
        detail=text(b"detail"),
        source_id=text(b"source_id"),
        attempts=whole(fields.get(b"attempts")),
        first_seen=whole(fields.get(b"first_seen")),
        dead_at=whole(fields.get(b"dead_at")),
        history=text(b"history"),
    )
