"""Replay dead letters: move them into the inbox at a limited pace and follow each to its result.

A replay keeps a few hundred letters in memory besides the ids, never fills the inbox beyond a limit that
live matches do not feel, and ignores letters that died after it began. Its log in Redis has the result of
each letter, so that a replay that was killed can be resumed by its name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

from match_ratings_worker.backoff import Backoff
from match_ratings_worker.storage import LadderHandle, server_time

from .dead_letter_store import DeadLetterStore, raise_if_cancelled
from .dry_run import DryRun
from .replay_candidates import Replayable, ReplayCandidates
from .replay_log import InFlight, ReplayLog, ReplayOptions, new_replay_name
from .replay_results import ReplayOutcome, ReplayResult
from .replay_throttle import InboxLimit, RateLimiter, StallDetector

#: Letters moved in one step.
_CHUNK: Final = 64


class DeadLetterReplay:
    """One replay. Iterating over `results` carries it out; each selected letter has one result."""

    def __init__(self, ladder: LadderHandle, options: ReplayOptions | None, name: str | None = None) -> None:
        """A replay that began under `name` is resumed with its own options; those given are for a new one.

        Raises ValueError for a name that no replay can have.
        """
        self.name = name if name is not None else new_replay_name()
        self._ladder, self._options = ladder, options
        self._letters = DeadLetterStore(ladder)
        self._log = ReplayLog(ladder, self.name)
        self._ready: deque[Replayable] = deque()
        #: Number of selected letters; known with the first result.
        self.total = 0
        #: Why it ended before all letters were settled; empty when all are.
        self.stopped = ""

    async def results(self) -> AsyncIterator[ReplayResult]:
        """Carry the replay out. Raises UnknownReplay, and ArchiveError when late letters are looked up."""
        options, known = await self._log.begin(self._options)
        in_flight = self._log.in_flight
        candidates = ReplayCandidates(self._ladder, options, self.name)
        known += await candidates.find(self._log.until, {*(item.letter for item in known), *in_flight})
        self.total = len(known) + len(in_flight) + len(candidates)
        for result in known:
            yield result
        stall = StallDetector(self._letters, options.timeout)
        rate, inbox = RateLimiter(options.rate), InboxLimit(options.inbox_limit)
        if candidates.has_more or in_flight:
            self.stopped = await stall.reason_to_stop(now=True)
        backoff = Backoff(0.005, 0.1)
        while not self.stopped:
            raise_if_cancelled()
            done = await self._prepare(candidates)
            count, gone = await self._move(rate, inbox.entries)
            settled = await self._log.collect()
            inbox.record_settled(len(settled))
            done += gone + settled
            for result in done:
                yield result
            if not (candidates.has_more or self._ready or in_flight):
                return
            if done or count or (rate.exhausted and not in_flight):
                stall.record_progress()
            else:
                self.stopped = await stall.reason_to_stop()
            if done:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_pause())
        for letter_id in in_flight:
            yield ReplayResult(letter_id, ReplayOutcome.WAITING)
        for letter_id in (*(ready.letter.id for ready in self._ready), *candidates.remaining_ids):
            yield ReplayResult(letter_id, ReplayOutcome.LEFT)

    async def _prepare(self, candidates: ReplayCandidates) -> list[ReplayResult]:
        """Prepare the next page once the last one has been moved; return letters not to be replayed."""
        if self._ready:
            return []
        page = await candidates.next_page()
        self._ready.extend(item for item in page if isinstance(item, Replayable))
        return [item for item in page if isinstance(item, ReplayResult)]

    async def _move(self, rate: RateLimiter, inbox_limit: int) -> tuple[int, list[ReplayResult]]:
        """Move prepared letters as far as the limits allow; return their number, and those now gone."""
        batch = list(islice(self._ready, rate.allowed(min(len(self._ready), _CHUNK))))
        if not batch:
            return 0, []
        moves = [ready.move for ready in batch]
        inbox_ids = await self._letters.move_to_inbox(self.name, moves, inbox_limit=inbox_limit)
        rate.record_moved(len(inbox_ids))
        gone = []
        for inbox_id in inbox_ids:
            ready = self._ready.popleft()
            if inbox_id:
                self._log.in_flight[ready.letter.id] = InFlight(inbox_id, ready.detail)
            else:
                gone.append(ReplayResult(ready.letter.id, ReplayOutcome.GONE))
        return len(inbox_ids), gone

    async def dry_run(self) -> AsyncIterator[ReplayResult]:
        """Yield the result that each letter would have. Writes nothing and needs no worker."""
        candidates = ReplayCandidates(self._ladder, self._options or ReplayOptions(), self.name)
        missing = await candidates.find(await self._letters.newest_id())
        self.total = len(candidates) + len(missing)
        for result in missing:
            yield result
        dry_run = await DryRun.open(self._ladder)
        while page := await candidates.next_page():
            raise_if_cancelled()
            now = await server_time(self._ladder.redis, self._ladder.keys.inbox)
            able = [(item.letter, item.force_late) for item in page if isinstance(item, Replayable)]
            found = iter(await dry_run.of(able, now=now, include_parked=True))
            for item in page:
                if isinstance(item, ReplayResult):
                    yield item
                else:
                    would = next(found)
                    yield ReplayResult(item.letter.id, would.outcome, would.detail, would.reason)
