"""Runs a batch processor: works, waits, takes over stale messages, and reconnects to a lost Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final

import structlog
from redis.exceptions import ResponseError

from match_ratings_worker.backoff import Backoff
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import CONNECTION_ERRORS

from .claim_read_commit import Admission
from .process_batch import BatchProcessor

log = structlog.get_logger(__name__)

#: Interval of looking for workers that are gone, in seconds; an idle consumer wakes as often.
_TICK = 1.0
#: First and longest pause between two looks at messages that wait for another worker's, in seconds.
_BLOCKED: Final = (0.001, 0.02)
#: Time without progress after which lines are checked for deleted messages, in seconds.
_STUCK = 2.0
#: First and longest pause between two tries to reach Redis, in seconds.
_AWAY: Final = (0.05, 2.0)

#: Why a worker must stay out of a ladder.
_WHY_NOT: dict[Admission, str] = {
    "live": "workers that are authoritative rate this ladder, or have done so; a shadow would take their "
    "matches away",
    "shadow": "this ladder has a shadow, which takes the matches; stop its workers and run "
    "match-ratings shadow clear",
    "clearing": "the shadow is being cleared; if that was broken off, run match-ratings shadow clear again",
}


class StreamConsumer:
    """Runs a batch processor for one ladder until `stop`."""

    def __init__(self, engine: BatchProcessor) -> None:
        self.engine = engine
        #: Seconds spent working since the start.
        self.busy_seconds = 0.0
        self._measured = (time.monotonic(), 0.0)
        self._stop = asyncio.Event()
        self._next_tick = 0.0
        self._disagreed = False
        self._admission: Admission = "entered"

    def busy_share(self) -> float:
        """The share of the time since the last call, 0-1, that was spent working."""
        since, busy = self._measured
        self._measured = (time.monotonic(), self.busy_seconds)
        passed = self._measured[0] - since
        return min((self.busy_seconds - busy) / passed, 1.0) if passed > 0 else 0.0

    def stop(self) -> None:
        """Request a stop: `run` finishes the batch in hand, leaves the group and returns."""
        self._stop.set()

    async def run(self) -> None:
        """Rate matches until `stop`; waits for a lost or restarting Redis however long."""
        away = Backoff(*_AWAY)
        while not self._stop.is_set():
            try:
                if not await self._joined() or not await self._settings_agree():
                    continue
                await self.engine.claim_own()
                if away.started:
                    log.info("Redis is back", ladder=self.engine.ladder)
                    away.reset()
                await self._work()
            except Exception as error:
                # What was claimed stays claimed; it is read again when all is well.
                self.engine.reset()
                self._log_error(error, again=away.started)
                await self._sleep(away.next_pause())
        try:
            if self._admission == "entered":
                await self.engine.shut_down()
        except CONNECTION_ERRORS as error:
            log.warning(
                "stopped without Redis; the others take over later",
                ladder=self.engine.ladder,
                error=quote(str(error), 200),
            )

    def _log_error(self, error: Exception, *, again: bool) -> None:
        about = {"ladder": self.engine.ladder, "error": quote(str(error), 200)}
        if isinstance(error, ResponseError) and "OTHERSETTINGS" in str(error):
            return  # said when the settings are compared
        if isinstance(error, ResponseError) and "NOGROUP" in str(error):
            log.warning("the consumer group was missing and is created again", ladder=self.engine.ladder)
        elif not isinstance(error, CONNECTION_ERRORS):
            log.exception("unexpected error, retrying", **about)
        elif not again:
            log.warning("Redis unavailable, retrying", **about)

    async def _joined(self) -> bool:
        """Join the consumer group; sleeps and returns False if the ladder belongs to the other mode."""
        admission = await self.engine.store.join_group()
        if admission != self._admission:
            if admission == "entered":
                log.info("the ladder is free now", ladder=self.engine.ladder)
            else:
                log.error(f"not rating: {_WHY_NOT[admission]}", ladder=self.engine.ladder)
        self._admission = admission
        if admission == "entered":
            return True
        await self._sleep(_TICK)
        return False

    async def _settings_agree(self) -> bool:
        """Whether the ladder is rated by this worker's settings; sleeps if not."""
        if await self.engine.store.ensure_adopted():
            if self._disagreed:
                log.info("the ladder's settings are this worker's again", ladder=self.engine.ladder)
            self._disagreed = False
            return True
        if not self._disagreed:
            log.error(
                "not rating: other settings are adopted for this ladder than this worker's; "
                "see match-ratings ladder diff and ladder adopt",
                ladder=self.engine.ladder,
            )
            await self.engine.shut_down()
        self._disagreed = True
        await self._sleep(_TICK)
        return False

    async def _work(self) -> None:
        engine = self.engine
        backoff, moved_at, blocked = Backoff(*_BLOCKED), time.monotonic(), False
        while not self._stop.is_set():
            started = time.monotonic()
            if started >= self._next_tick:
                self._next_tick = started + _TICK
                if not await engine.store.ensure_adopted():  # before messages are taken over in vain
                    engine.reset()
                    return
                if await engine.claim_stale():
                    self._next_tick = started  # there may be more
                if engine.waiting and started - moved_at > _STUCK:
                    await engine.unblock()
            # The next messages are claimed while the present ones are rated and committed.
            came, done = await _both(engine.claim_new(), engine.settle(probe=blocked))
            now = time.monotonic()
            if came or done:
                self.busy_seconds += now - started
                moved_at, blocked = now, False
                backoff.reset()
            elif engine.waiting:
                # All of them wait for a message that another worker has in hand.
                blocked = True
                await self._sleep(backoff.next_pause())
            elif engine.leader_ttl_ms:
                moved_at = now
                await self._sleep(min(engine.leader_ttl_ms / 1000, _TICK))
            else:
                moved_at = now
                await self._wait_for_message(max(self._next_tick - now, 0.001))

    async def _wait_for_message(self, seconds: float) -> None:
        waiting = asyncio.ensure_future(
            self.engine.store.wait_for_message(self.engine.newest, max(int(seconds * 1000), 1))
        )
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not waiting.done():
                waiting.cancel()
                waiting.add_done_callback(lambda task: task.cancelled() or task.exception())
        if waiting.done() and not waiting.cancelled():
            waiting.result()

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return


async def _both(first: Coroutine[Any, Any, int], second: Coroutine[Any, Any, int]) -> tuple[int, int]:
    """Await both to their ends, then raises the error of either."""
    beside = asyncio.create_task(first)
    try:
        two = await second
    finally:
        await asyncio.wait({beside})
        beside.exception()
    return beside.result(), two
