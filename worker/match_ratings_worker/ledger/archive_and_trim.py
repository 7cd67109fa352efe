"""Copies events into the archive and trims the ledgers; an event is trimmed only once it is archived.

Three steps: write the events to disk; store in Redis the archive's last id; trim events past their keep
time. After a crash between two of them the next run continues from the file.
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
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import (
    CONNECTION_ERRORS,
    ClientExecutor,
    Keys,
    Script,
    parse_stream_id,
    server_time,
)
from match_ratings_worker.time_units import DAY_MS

from .sqlite_archive import Archive, ArchiveError, StoredEvent

log = structlog.get_logger(__name__)

#: Events copied in one step; ten times as many are trimmed.
_PAGE: Final = 1000
#: Minimum age of an archived event, in ms, so that none is archived that a failing primary then loses.
_MARGIN: Final = 60_000
#: A receipt outlives the horizon by less than this, in ms; its event is kept as long as the receipt.
_SLACK: Final = 2 * 3_600_000
#: Time limit of one run, in seconds; the next run continues.
_LONGEST_RUN: Final = 30.0
#: Seconds between two runs.
_INTERVAL: Final = 60.0

_FIELD: Final = FIELD.encode()


class ArchiveMismatch(Exception):
    """Raised when the archive is not the ladder's, or is an old copy; the text is one sentence."""


class ArchiveRun(NamedTuple):
    """Events archived and trimmed by one run for one ladder."""

    archived: int
    trimmed: int


class Archiver:
    """Keeps the ledgers short, and the archive, if any, complete."""

    def __init__(
        self, redis: Redis, archive: Archive | None, *, keep: int, page: int = _PAGE, margin: int = _MARGIN
    ) -> None:
        """`keep` is how long events stay in Redis, in ms, 0 for ever; `margin` their age to be archived."""
        self._redis, self.archive = redis, archive
        self._keep, self._page, self._margin = keep, page, margin
        self._executor = ClientExecutor(redis)
        self._set_script, self._trim_script = Script("set_archive_position"), Script("trim_ledger")
        #: Ladder -> the error last logged, so that each is logged once.
        self._reported: dict[str, str] = {}
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Requests a stop after the current page."""
        self._stop.set()

    def close(self) -> None:
        """Closes the archive, if any; call it after the last run."""
        if self.archive is not None:
            self.archive.close()

    async def run_forever(self, ladders: Iterable[tuple[str, Keys]]) -> None:
        """Runs for all ladders, once a minute, until `stop`; logs errors."""
        ladders = list(ladders)
        while not self._stop.is_set():
            for ladder, keys in ladders:
                await self.run_and_log(ladder, keys)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _INTERVAL)

    async def run_and_log(self, ladder: str, keys: Keys) -> None:
        """Runs for one ladder; logs an error once, and again only when it changes."""
        try:
            done = await self.run(ladder, keys)
        except (ArchiveMismatch, ArchiveError, *CONNECTION_ERRORS) as error:
            text = quote(str(error), 400)
            if self._reported.get(ladder) != text:
                log.error("archiving failed", ladder=ladder, error=text)
            self._reported[ladder] = text
            return
        if self._reported.pop(ladder, None):
            log.info("archiving works again", ladder=ladder)
        if done.archived or done.trimmed:
            log.debug(
                "ledger archived and trimmed", ladder=ladder, archived=done.archived, trimmed=done.trimmed
            )

    async def run(self, ladder: str, keys: Keys) -> ArchiveRun:
        """Archives and trims until the time limit.

        Raises ArchiveMismatch, ArchiveError, and redis.exceptions.RedisError.
        """
        end = time.monotonic() + _LONGEST_RUN
        now = await server_time(self._redis, keys.outbox)
        archived, upto = 0, ""
        if self.archive is not None:
            upto = await self._set_position(ladder, keys, now)
            while page := await self._page_after(keys, upto, now - self._margin):
                archived += await asyncio.to_thread(self.archive.append, ladder, page)
                upto = await self._set_position(ladder, keys, now)
                if len(page) < self._page or time.monotonic() > end or self._stop.is_set():
                    break
        return ArchiveRun(
            archived, await self._trim_before(ladder, keys, now, upto, end) if self._keep else 0
        )

    async def adopt(self, ladder: str, keys: Keys) -> None:
        """Makes this archive the ladder's, in place of any other. Raises as `run`."""
        await self._set_position(ladder, keys, await server_time(self._redis, keys.outbox), force=True)

    async def _set_position(self, ladder: str, keys: Keys, now: int, *, force: bool = False) -> str:
        """Stores in Redis the last id of the archive, and returns it."""
        archive = self.archive
        assert archive is not None
        last = await asyncio.to_thread(archive.last, ladder)
        place = f"{socket.gethostname()}:{archive.path.absolute()}"
        reply = await self._set_script(
            self._executor, (keys.archive,), (archive.id, place, last, now, int(force))
        )
        if reply == b"noted":
            return last
        reason, detail = (text.decode("utf-8", "replace") for text in reply)
        path = quote(str(archive.path), 200)
        if reason == "other":
            msg = f"{path} is not the archive of ladder {ladder}, which is {detail}"
        else:
            msg = (
                f"{path} is an old copy: it ends at {last}, and had events of ladder {ladder} up to {detail}"
            )
        raise ArchiveMismatch(f"{msg}; to use it anyway: match-ratings archive adopt")

    async def _page_after(self, keys: Keys, after: str, until_ms: int) -> list[StoredEvent]:
        found = await self._redis.xrange(keys.outbox, f"({after}", str(until_ms), count=self._page)
        return [(entry_id.decode(), _payload(fields)) for entry_id, fields in found]

    async def _trim_before(self, ladder: str, keys: Keys, now: int, upto: str, end: float) -> int:
        """Trims events past their keep time; with an archive none after its last, `upto`."""
        ms = max(now - self._keep - _SLACK, 0)
        before, archive_id = f"{ms}-0", ""
        if self.archive is not None:
            archive_id = self.archive.id
            last_ms, sequence = parse_stream_id(upto)
            if last_ms < ms:
                before = f"{last_ms}-{sequence + 1}"
        trimmed = 0
        while True:
            count = int(
                await self._trim_script(
                    self._executor, (keys.outbox, keys.archive), (archive_id, before, 10 * self._page)
                )
            )
            if count < 0:
                await self._check_other_archive(ladder, keys, now)
                return trimmed
            trimmed += count
            if not count or time.monotonic() > end or self._stop.is_set():
                return trimmed

    async def _check_other_archive(self, ladder: str, keys: Keys, now: int) -> None:
        """Raises ArchiveMismatch when the archive that another process writes is a day behind."""
        found: Any = await self._redis.execute_command("HMGET", keys.archive, "place", "at")
        place, days = (found[0] or b"").decode("utf-8", "replace"), (now - int(found[1] or 0)) / DAY_MS
        if days > 1:
            msg = f"the archive of ladder {ladder}, {quote(place, 200)}, was written {days:.0f} days ago"
            raise ArchiveMismatch(msg)


def open_archiver(redis: Redis, settings: Settings) -> Archiver:
    """A worker's archiver, with the archive that RATINGS_ARCHIVE names; a shadow's has none.

    Raises ArchiveError.
    """
    path = None if settings.shadow else settings.archive
    archive = None if path is None else Archive(path, writable=True)
    return Archiver(redis, archive, keep=settings.keep_events_ms)


def _payload(fields: dict[bytes, bytes]) -> bytes:
    """An event's JSON; any other entry is kept whole, as an object of its fields."""
    if _FIELD in fields:
        return fields[_FIELD]
    texts = {
        name.decode("utf-8", "backslashreplace"): value.decode("utf-8", "backslashreplace")
        for name, value in fields.items()
    }
    return orjson.dumps(texts)
