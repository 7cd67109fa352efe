"""Copies events into the archive and trims the ledgers: nothing is trimmed that is to be archived and is not.

The steps: the events are in the file and on the disk; the ladder notes how far its archive has come; what
is older than is kept is trimmed. After a crash between any two of them the next run goes on from what is
in the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson
import structlog
from redis.asyncio import Redis

from match_ratings.stream_names import FIELD
from match_ratings_worker.environment import Settings
from match_ratings_worker.ledger.sqlite_archive import Archive, ArchiveError, Event
from match_ratings_worker.storage.connection import CONNECTION_ERRORS
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.stream_pages import server_time
from match_ratings_worker.text import quote
from match_ratings_worker.units import DAY_MS

__all__ = ["Archiver", "Refused", "Run", "open_archiver"]

log = structlog.get_logger(__name__)

#: Events that are copied, and at most trimmed, in one step.
_PAGE: Final = 1000
#: How old an event must be to be archived, in ms: one that a failing primary took with it is never there.
_MARGIN: Final = 60_000
#: A receipt outlives the horizon by less than this, in ms; its event is kept as long.
_SLACK: Final = 2 * 3_600_000
#: How long a run may take, in seconds: the next goes on.
_LONGEST_RUN: Final = 30.0
#: Seconds between two runs.
_INTERVAL: Final = 60.0

_FIELD: Final = FIELD.encode()


class Refused(Exception):
    """The archive is not this ladder's, or lacks what it once had; the text is one sentence."""


class Run(NamedTuple):
    """What one run did for one ladder."""

    archived: int
    trimmed: int


class Archiver:
    """Keeps the ledgers short, and the archive complete where there is one."""

    def __init__(
        self, redis: Redis, archive: Archive | None, *, keep: int, page: int = _PAGE, margin: int = _MARGIN
    ) -> None:
        """`keep`, how long events stay in Redis, in ms; 0 for ever."""
        self._redis, self.archive = redis, archive
        self._keep, self._page, self._margin = keep, page, margin
        self._executor = ClientExecutor(redis)
        self._noted, self._trim = Script("set_archive_position"), Script("trim_ledger")
        #: What was said of a ladder, so that it is said once.
        self._said: dict[str, str] = {}
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Asks for the end: the page in hand is finished."""
        self._stop.set()

    async def run_forever(self, ladders: Iterable[tuple[str, Keys]]) -> None:
        """Runs for all ladders, once a minute, until `stop`; what goes wrong is logged, once."""
        ladders = list(ladders)
        while not self._stop.is_set():
            for ladder, keys in ladders:
                await self.run_and_log(ladder, keys)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _INTERVAL)

    async def run_and_log(self, ladder: str, keys: Keys) -> None:
        """Runs for one ladder; what goes wrong is logged, and again only when it is something else."""
        try:
            done = await self.run(ladder, keys)
        except (Refused, ArchiveError, *CONNECTION_ERRORS) as error:
            text = quote(str(error), 400)
            if self._said.get(ladder) != text:
                log.error("events are neither archived nor trimmed", ladder=ladder, error=text)
            self._said[ladder] = text
            return
        if self._said.pop(ladder, None):
            log.info("events are archived and trimmed again", ladder=ladder)
        if done.archived or done.trimmed:
            log.debug("ledger", ladder=ladder, archived=done.archived, trimmed=done.trimmed)

    async def run(self, ladder: str, keys: Keys) -> Run:
        """Archives and trims as much as there is time for.

        Raises Refused, ArchiveError, and redis.exceptions.RedisError.
        """
        end = time.monotonic() + _LONGEST_RUN
        now = await server_time(self._redis, keys.outbox)
        archived, upto = 0, ""
        if self.archive is not None:
            upto = await self._note(ladder, keys, now)
            while page := await self._page_after(keys, upto, now - self._margin):
                archived += await asyncio.to_thread(self.archive.append, ladder, page)
                upto = await self._note(ladder, keys, now)
                if len(page) < self._page or time.monotonic() > end or self._stop.is_set():
                    break
        return Run(archived, await self._trim_before(ladder, keys, now, upto, end) if self._keep else 0)

    async def adopt(self, ladder: str, keys: Keys) -> None:
        """Makes the archive this ladder's, whatever was before."""
        await self._note(ladder, keys, await server_time(self._redis, keys.outbox), whatever=True)

    async def _note(self, ladder: str, keys: Keys, now: int, *, whatever: bool = False) -> str:
        """Tells Redis how far the archive has come, and returns that; raises Refused."""
        archive = self.archive
        assert archive is not None
        last = await asyncio.to_thread(archive.last, ladder)
        place = f"{socket.gethostname()}:{archive.path.absolute()}"
        said = await self._noted(
            self._executor, (keys.archive,), (archive.id, place, last, now, int(whatever))
        )
        if said == b"noted":
            return last
        why, what = (text.decode("utf-8", "replace") for text in said)
        path = quote(str(archive.path), 200)
        if why == "other":
            msg = f"{path} is not the archive of ladder {ladder}, which is {what}"
        else:
            msg = f"{path} is an old copy: it ends at {last}, and had events of ladder {ladder} up to {what}"
        raise Refused(f"{msg}; to go on with it all the same: match-ratings archive adopt")

    async def _page_after(self, keys: Keys, after: str, oldest_kept: int) -> list[Event]:
        found = await self._redis.xrange(keys.outbox, f"({after}", str(oldest_kept), count=self._page)
        return [(entry_id.decode(), _payload(fields)) for entry_id, fields in found]

    async def _trim_before(self, ladder: str, keys: Keys, now: int, upto: str, end: float) -> int:
        """Trims what is older than is kept, up to and with the event `upto` where there is an archive."""
        ms = max(now - self._keep - _SLACK, 0)
        before, archive_id = f"{ms}-0", ""
        if self.archive is not None:
            archive_id = self.archive.id
            last_ms, _, seq = upto.partition("-")
            if int(last_ms) < ms:
                before = f"{last_ms}-{int(seq) + 1}"
        trimmed = 0
        while True:
            count = int(
                await self._trim(
                    self._executor, (keys.outbox, keys.archive), (archive_id, before, 10 * self._page)
                )
            )
            if count < 0:
                await self._look_elsewhere(ladder, keys, now)
                return trimmed
            trimmed += count
            if not count or time.monotonic() > end or self._stop.is_set():
                return trimmed

    async def _look_elsewhere(self, ladder: str, keys: Keys, now: int) -> None:
        """The ladder's archive is another's to write; raises Refused when nobody has for a day."""
        found: Any = await self._redis.execute_command("HMGET", keys.archive, "place", "at")
        place, days = (found[0] or b"").decode("utf-8", "replace"), (now - int(found[1] or 0)) / DAY_MS
        if days > 1:
            msg = f"the archive of ladder {ladder}, {quote(place, 200)}, was written {days:.0f} days ago"
            raise Refused(msg)


def open_archiver(redis: Redis, settings: Settings) -> Archiver:
    """The archivist of a worker, with the archive that RATINGS_ARCHIVE names; a shadow's has none.

    Raises ArchiveError.
    """
    path = None if settings.shadow else settings.archive
    archive = None if path is None else Archive(path, writable=True)
    return Archiver(redis, archive, keep=settings.keep_events_ms)


def _payload(fields: dict[bytes, bytes]) -> bytes:
    """An event's JSON; an entry that is no event is kept whole, as an object of its fields."""
    if _FIELD in fields:
        return fields[_FIELD]
    texts = {
        name.decode("utf-8", "backslashreplace"): value.decode("utf-8", "backslashreplace")
        for name, value in fields.items()
    }
    return orjson.dumps(texts)
