"""A ladder's dead letters in Redis: read, counted, moved, edited, discarded, put back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from redis.asyncio import Redis

from match_ratings_worker.dead_letters.cancellation import raise_if_cancelled
from match_ratings_worker.dead_letters.letter_filter import Filter
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.dead_letter_entries import DeadLetterEntry
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.stream_ids import MAX_STREAM_ID, is_after, is_stream_id
from match_ratings_worker.storage.stream_pages import entries, whole
from match_ratings_worker.storage.worker_liveness import has_worker
from match_ratings_worker.units import DAY_MS, keep_games_ms, now_ms

if TYPE_CHECKING:
    from match_ratings_worker.environment import Settings
    from match_ratings_worker.ladders_file import Ladder

__all__ = ["Letters", "Move", "Setup"]

#: Dead letters that are read, and discarded, in one step.
_PAGE: Final = 200
#: How long a worker may be silent however it is configured, in ms.
_SILENT: Final = 5_000
#: How long a restored letter is remembered, in ms: 90 days.
_REMEMBERED: Final = 90 * DAY_MS


@dataclass(frozen=True, slots=True)
class Setup:
    """The ladder that is worked on, and this installation's settings for it; times in ms."""

    ladder: str
    system: RatingSystem
    horizon: int
    #: How long a silent worker still counts as running.
    idle: int
    #: The file with the events that have left the ledger; None when there is none.
    archive: Path | None = None
    #: Whether this installation rates beside another rater.
    shadow: bool = False

    @classmethod
    def of(cls, settings: Settings, ladder: Ladder) -> Self:
        """A configured ladder."""
        return cls(
            ladder.name,
            ladder.system,
            settings.horizon_ms,
            int(settings.idle_seconds * 1000),
            settings.archive,
            settings.shadow,
        )

    @property
    def keys(self) -> Keys:
        """The ladder's keys."""
        return Keys(self.ladder, shadow=self.shadow)


class Move(NamedTuple):
    """A dead letter on its way into the inbox."""

    id: str
    #: What goes with the message, JSON.
    replay: str
    #: "" when nobody has changed it.
    history: str
    #: Player, match id and finish in ms of games that have to be in the windows when it is rated.
    games: Sequence[tuple[str, str, int]] = ()


class Letters:
    """The dead letters of one ladder."""

    def __init__(self, redis: Redis, setup: Setup) -> None:
        self.redis = redis
        self.keys = setup.keys
        self._keep_games = keep_games_ms(setup.horizon)
        self._executor = ClientExecutor(redis)
        self._replay, self._edit = Script("replay"), Script("edit")
        self._discard, self._restore = Script("discard"), Script("restore")

    async def newest(self) -> str:
        """The id of the newest dead letter; "0-0" when there is none."""
        found = await self.redis.xrevrange(self.keys.dead_letters, count=1)
        return found[0][0].decode() if found else "0-0"

    async def count(self) -> int:
        """How many there are."""
        return int(await self.redis.xlen(self.keys.dead_letters))

    async def get(self, ids: Sequence[str]) -> list[DeadLetterEntry | None]:
        """The letters with these ids; None for those that are not there."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for letter_id in ids:
                if is_stream_id(letter_id):
                    pipe.xrange(self.keys.dead_letters, letter_id, letter_id)
                else:
                    pipe.xrange(self.keys.dead_letters, MAX_STREAM_ID, MAX_STREAM_ID)
            replies = await pipe.execute()
        return [
            DeadLetterEntry.from_entry((reply[0][0].decode(), reply[0][1])) if reply else None
            for reply in replies
        ]

    async def find(
        self, where: Filter, *, until: str = "+", before: str | None = None
    ) -> AsyncIterator[DeadLetterEntry]:
        """The letters that are meant, newest first, none newer than `until` or from `before` on.

        With ids these in the order given, those that are not there left out.
        """
        if where.ids:
            for start in range(0, len(where.ids), _PAGE):
                for letter in await self.get(where.ids[start : start + _PAGE]):
                    late = letter is not None and until != "+" and is_after(letter.id, until)
                    if letter is not None and not late and where.takes(letter):
                        yield letter
            return
        top = until if before is None else f"({before}"
        async for entry in entries(self.redis, self.keys.dead_letters, newest=top, page=_PAGE, reverse=True):
            raise_if_cancelled()
            letter = DeadLetterEntry.from_entry(entry)
            if where.takes(letter):
                yield letter

    async def died_after(self, letter_id: str) -> AsyncIterator[DeadLetterEntry]:
        """The letters that are newer than this one, oldest first."""
        async for entry in entries(self.redis, self.keys.dead_letters, oldest=f"({letter_id}", page=_PAGE):
            yield DeadLetterEntry.from_entry(entry)

    async def reasons(self, where: Filter, *, until: str = "+") -> Counter[str]:
        """Reason -> how many of those that are meant."""
        found: Counter[str] = Counter()
        async for letter in self.find(where, until=until):
            found[letter.reason] += 1
        return found

    async def move(self, run: str, moves: Sequence[Move], *, room: int) -> list[str]:
        """Moves letters into the inbox, in this order, as long as it holds fewer than `room` entries.

        Returns their ids there, "" for one that is gone; fewer than given when the inbox is full.
        """
        args: list[Any] = [room, now_ms(), self._keep_games]
        for move in moves:
            args += (move.id, move.replay, move.history, len(move.games))
            for game in move.games:
                args += game
        keys = self.keys
        moved = await self._replay(
            self._executor,
            (keys.dead_letters, keys.inbox, keys.run_ + run, keys.corrections, keys.games_),
            args,
        )
        return [inbox_id.decode() for inbox_id in moved]

    async def edit(
        self, letter: DeadLetterEntry, message: bytes, *, reason: str, detail: str, history: str
    ) -> str:
        """Puts the edited message in the letter's place; returns the new id, "" when it is gone."""
        args = (letter.id, message, reason, detail, history)
        return str((await self._edit(self._executor, (self.keys.dead_letters,), args)).decode())

    async def discard(self, ids: Sequence[str], *, who: str, why: str) -> list[str]:
        """Takes letters out for good and logs them; returns the ids of those that were there."""
        done: list[str] = []
        for start in range(0, len(ids), _PAGE):
            page = [letter_id for letter_id in ids[start : start + _PAGE] if is_stream_id(letter_id)]
            if page:
                keys = (self.keys.dead_letters, self.keys.discarded)
                flags = await self._discard(self._executor, keys, (now_ms(), who, why, *page))
                done += [letter_id for letter_id, flag in zip(page, flags, strict=True) if flag]
        return done

    async def discard_all(self, where: Filter, *, until: str, who: str, why: str) -> int:
        """Discards the letters that are meant, none newer than `until`; returns how many."""
        count, page = 0, []
        async for letter in self.find(where, until=until):
            page.append(letter.id)
            if len(page) == _PAGE:
                count += len(await self.discard(page, who=who, why=why))
                page = []
        return count + len(await self.discard(page, who=who, why=why))

    async def restore(self, letters: Sequence[tuple[str, DeadLetterEntry]]) -> list[str]:
        """Puts exported letters, each with its fingerprint, back.

        Returns for each the new id; "" when it was restored before, "=" when it is still there.
        """
        args: list[Any] = [_REMEMBERED]
        for fingerprint, letter in letters:
            fields: list[Any] = ["reason", letter.reason, "detail", letter.detail]
            fields += ["source_id", letter.source_id, "attempts", letter.attempts]
            fields += ["first_seen", letter.first_seen, "dead_at", letter.dead_at]
            fields += ["history", letter.history] if letter.history else []
            args += (fingerprint, letter.id, letter.message, len(fields), *fields)
        keys = (self.keys.dead_letters, self.keys.restored)
        return [new_id.decode() for new_id in await self._restore(self._executor, keys, args)]

    async def has_worker(self, idle: int) -> bool:
        """Whether a worker rates this ladder; one silent for `idle` ms, 5 s at least, does not count."""
        return await has_worker(self.redis, self.keys, max(idle, _SILENT))

    async def settled(self) -> int:
        """How many messages were settled since the ladder's start: it grows while workers work."""
        counts: Any = await self.redis.hvals(self.keys.counts)  # type: ignore[misc] # typed for both clients
        return sum(map(whole, counts))
