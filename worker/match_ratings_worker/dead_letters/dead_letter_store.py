"""A ladder's dead letters in Redis: reads, counts, moves, edits, discards and restores them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from match_ratings_worker.storage import (
    MAX_STREAM_ID,
    DeadLetterEntry,
    LadderHandle,
    Script,
    entries,
    has_worker,
    is_after,
    is_stream_id,
    whole,
)
from match_ratings_worker.time_units import DAY_MS, now_ms

from .dead_letter_filter import DeadLetterFilter

#: Dead letters read, and discarded, in one step.
_PAGE: Final = 200
#: How long a worker may be silent however it is configured, in ms.
_SILENT_MS: Final = 5_000
#: How long a restored letter is remembered, in ms: 90 days.
_REMEMBERED_MS: Final = 90 * DAY_MS


class InboxMove(NamedTuple):
    """A dead letter on its way into the inbox."""

    id: str
    #: JSON stored with the message in the inbox.
    replay: str
    #: Empty when nobody has changed it.
    history: str
    #: Player, match id and finish in ms of games to put back into the windows before it is rated.
    games: Sequence[tuple[str, str, int]] = ()


class DeadLetterStore:
    """The dead letters of one ladder. Each change is one script call."""

    def __init__(self, ladder: LadderHandle) -> None:
        self._ladder = ladder
        self._redis, self._keys = ladder.redis, ladder.keys
        self._replay, self._edit = Script("replay_dead_letters"), Script("edit_dead_letter")
        self._discard, self._restore = Script("discard_dead_letters"), Script("restore_dead_letters")

    async def newest_id(self) -> str:
        """The id of the newest dead letter; "0-0" when there is none."""
        found = await self._redis.xrevrange(self._keys.dead_letters, count=1)
        return found[0][0].decode() if found else "0-0"

    async def count(self) -> int:
        """The number of dead letters."""
        return int(await self._redis.xlen(self._keys.dead_letters))

    async def get(self, ids: Sequence[str]) -> list[DeadLetterEntry | None]:
        """The letters with these ids, in this order; None for each that does not exist."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for text in ids:
                letter_id = text if is_stream_id(text) else MAX_STREAM_ID
                pipe.xrange(self._keys.dead_letters, letter_id, letter_id)
            replies = await pipe.execute()
        return [
            DeadLetterEntry.from_entry((reply[0][0].decode(), reply[0][1])) if reply else None
            for reply in replies
        ]

    async def find(
        self, where: DeadLetterFilter, *, until: str = "+", before: str | None = None
    ) -> AsyncIterator[DeadLetterEntry]:
        """Yield the selected letters, newest first: none newer than `until`, only older ones than `before`.

        A filter with ids yields these in its own order and skips those that do not exist.
        """
        if where.ids:
            for start in range(0, len(where.ids), _PAGE):
                for letter in await self.get(where.ids[start : start + _PAGE]):
                    newer = letter is not None and until != "+" and is_after(letter.id, until)
                    if letter is not None and not newer and where.matches(letter):
                        yield letter
            return
        top = until if before is None else f"({before}"
        stream = self._keys.dead_letters
        async for entry in entries(self._redis, stream, newest=top, page=_PAGE, reverse=True):
            raise_if_cancelled()
            letter = DeadLetterEntry.from_entry(entry)
            if where.matches(letter):
                yield letter

    async def newer_than(self, letter_id: str) -> AsyncIterator[DeadLetterEntry]:
        """Yield the letters that came after this one, oldest first."""
        stream = self._keys.dead_letters
        async for entry in entries(self._redis, stream, oldest=f"({letter_id}", page=_PAGE):
            yield DeadLetterEntry.from_entry(entry)

    async def count_by_reason(self, where: DeadLetterFilter, *, until: str = "+") -> Counter[str]:
        """Reason -> number of selected letters, none newer than `until`."""
        return Counter([letter.reason async for letter in self.find(where, until=until)])

    async def move_to_inbox(
        self, replay_name: str, moves: Sequence[InboxMove], *, inbox_limit: int
    ) -> list[str]:
        """Move letters into the inbox, in this order, while it holds fewer than `inbox_limit` entries.

        Returns their inbox ids, "" for each that no longer exists; fewer when the inbox is full.
        """
        args: list[Any] = [inbox_limit, now_ms(), self._ladder.keep_games_ms]
        for move in moves:
            args += (move.id, move.replay, move.history, len(move.games))
            for game in move.games:
                args += game
        keys = self._keys
        moved = await self._replay(
            self._ladder.executor,
            (keys.dead_letters, keys.inbox, keys.replay_ + replay_name, keys.corrections, keys.games_),
            args,
        )
        return [inbox_id.decode() for inbox_id in moved]

    async def replace(
        self, letter: DeadLetterEntry, message: bytes, *, reason: str, detail: str, history: str
    ) -> str:
        """Put an edited message in the letter's place; return its new id, "" when the letter is gone."""
        args = (letter.id, message, reason, detail, history)
        return str((await self._edit(self._ladder.executor, (self._keys.dead_letters,), args)).decode())

    async def discard(self, ids: Sequence[str], *, by: str, why: str) -> list[str]:
        """Move letters to the stream `discarded`; return the ids of those that existed."""
        done: list[str] = []
        for start in range(0, len(ids), _PAGE):
            page = [letter_id for letter_id in ids[start : start + _PAGE] if is_stream_id(letter_id)]
            if page:
                keys = (self._keys.dead_letters, self._keys.discarded)
                flags = await self._discard(self._ladder.executor, keys, (now_ms(), by, why, *page))
                done += [letter_id for letter_id, flag in zip(page, flags, strict=True) if flag]
        return done

    async def discard_matching(self, where: DeadLetterFilter, *, until: str, by: str, why: str) -> int:
        """Discard the selected letters, none newer than `until`; return their number."""
        count, page = 0, []
        async for letter in self.find(where, until=until):
            page.append(letter.id)
            if len(page) == _PAGE:
                count += len(await self.discard(page, by=by, why=why))
                page = []
        return count + len(await self.discard(page, by=by, why=why))

    async def restore(self, letters: Sequence[tuple[str, DeadLetterEntry]]) -> list[str]:
        """Put exported letters back, each given with its fingerprint.

        Returns the new id of each; "" for one that was restored before, "=" for one that still exists.
        """
        args: list[Any] = [_REMEMBERED_MS]
        for fingerprint, letter in letters:
            fields = letter.fields()
            message = fields.pop("message")
            flat = [part for field in fields.items() for part in field]
            args += (fingerprint, letter.id, message, len(flat), *flat)
        keys = (self._keys.dead_letters, self._keys.restored)
        return [new_id.decode() for new_id in await self._restore(self._ladder.executor, keys, args)]

    async def has_worker(self) -> bool:
        """Whether a worker rates this ladder now."""
        return await has_worker(self._redis, self._keys, max(self._ladder.idle_ms, _SILENT_MS))

    async def settled_count(self) -> int:
        """The number of messages settled since the ladder's start; it grows while workers work."""
        counts: Any = await self._redis.hvals(self._keys.counts)  # type: ignore[misc] # typed for both clients
        return sum(map(whole, counts))


def raise_if_cancelled() -> None:
    """Raise CancelledError in a task that was cancelled.

    redis-py sends with `asyncio.wait_for`, which before Python 3.12 can swallow a cancellation; a task
    that sends many commands would run on.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
