"""A replay: moves dead letters into the inbox at a measured pace and follows each to its end.

It holds a few hundred letters besides the ids, never fills the inbox beyond a limit that live matches
do not feel, and never takes up a letter that died after it began. What became of each is in the run, a
hash in Redis, so that a replay that was killed can be taken up again under its name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

from redis.asyncio import Redis

from match_ratings_worker.dead_letters.cancellation import raise_if_cancelled
from match_ratings_worker.dead_letters.dry_run import DryRun
from match_ratings_worker.dead_letters.letter_store import Letters, Setup
from match_ratings_worker.dead_letters.prepare_replay import Ready
from match_ratings_worker.dead_letters.replay_candidates import ReplayCandidates
from match_ratings_worker.dead_letters.replay_options import Order
from match_ratings_worker.dead_letters.replay_outcome import Outcome, Result
from match_ratings_worker.dead_letters.replay_run import Run, Sent, is_replay_name, new_replay_name
from match_ratings_worker.dead_letters.throttle import RateLimiter, Room, Watch
from match_ratings_worker.queries import server_time

__all__ = ["Replay"]

#: Letters that are moved in one step.
_CHUNK: Final = 64
#: The shortest and the longest pause between two looks at the inbox and the run, in seconds.
_PAUSES: Final = (0.005, 0.1)


class Replay:
    """One replay. Iterating over `results` carries it out; each letter that is meant has one result."""

    def __init__(self, redis: Redis, setup: Setup, order: Order | None, name: str | None = None) -> None:
        """`name` takes up the run of this name again, with the order that it had; the given one is for a
        new run. Raises ValueError when no run could have this name.
        """
        self.name = name if name is not None else new_replay_name()
        if not is_replay_name(self.name):
            msg = "a run's name is 1-64 ASCII letters and digits"
            raise ValueError(msg)
        self._redis, self._setup, self._order = redis, setup, order
        self._letters = Letters(redis, setup)
        self._run = Run(self._letters, self.name)
        self._ready: deque[Ready] = deque()
        #: How many letters are meant; known with the first result.
        self.total = 0
        #: Why it ended before all were settled; "" when all are.
        self.stopped = ""

    async def results(self) -> AsyncIterator[Result]:
        """Carries the replay out. Raises UnknownRun, and ArchiveError when late ones are looked up."""
        order, known = await self._run.begin(self._order)
        chosen = ReplayCandidates(self._letters, self._setup, order, self.name)
        known += await chosen.find(self._run.until, {*(item.letter for item in known), *self._run.sent})
        self.total = len(known) + len(self._run.sent) + len(chosen)
        for result in known:
            yield result
        watch = Watch(self._letters, idle=self._setup.idle, patience=order.patience)
        pace, room = RateLimiter(order.rate), Room(order.room)
        if chosen.more or self._run.sent:
            self.stopped = await watch.look(now=True)
        pause = _PAUSES[0]
        while not self.stopped:
            raise_if_cancelled()
            done = await self._prepare(chosen)
            count, gone = await self._move(pace, room.limit)
            settled = await self._run.collect()
            room.settled(len(settled))
            done += gone + settled
            for result in done:
                yield result
            if not (chosen.more or self._ready or self._run.sent):
                return
            if done or count or (pace.rests and not self._run.sent):
                watch.moved()
            else:
                self.stopped = await watch.look()
            if done:
                pause = _PAUSES[0]
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _PAUSES[1])
        for result in self._run.rest():
            yield result
        for letter_id in (*(ready.move.id for ready in self._ready), *chosen.rest):
            yield Result(letter_id, Outcome.LEFT)

    async def _prepare(self, chosen: ReplayCandidates) -> list[Result]:
        """Gets the next letters ready, when those before have gone; returns what is not to go."""
        if self._ready:
            return []
        results = []
        for case in await chosen.next():
            if isinstance(case, Result):
                results.append(case)
            elif isinstance(case.plan, Result):
                results.append(case.plan)
            else:
                self._ready.append(case.plan)
        return results

    async def _move(self, pace: RateLimiter, room: int) -> tuple[int, list[Result]]:
        """Moves what is ready as far as pace and inbox allow; how many went, and which were gone."""
        batch = list(islice(self._ready, pace.allowed(min(len(self._ready), _CHUNK))))
        if not batch:
            return 0, []
        inbox_ids = await self._letters.move(self.name, [ready.move for ready in batch], room=room)
        pace.went(len(inbox_ids))
        gone = []
        for inbox_id in inbox_ids:
            ready = self._ready.popleft()
            if inbox_id:
                self._run.sent[ready.move.id] = Sent(inbox_id, ready.detail)
            else:
                gone.append(Result(ready.move.id, Outcome.GONE))
        return len(inbox_ids), gone

    async def dry_run(self) -> AsyncIterator[Result]:
        """What would become of each letter; nothing is written, and no worker is needed."""
        chosen = ReplayCandidates(self._letters, self._setup, self._order or Order(), self.name)
        missing = await chosen.find(await self._letters.newest())
        self.total = len(chosen) + len(missing)
        for result in missing:
            yield result
        forecast = await DryRun.open(self._redis, self._setup)
        while cases := await chosen.next():
            raise_if_cancelled()
            now = await server_time(self._redis, self._letters.keys.inbox)
            able = [
                (case.letter, case.plan.force_late)
                for case in cases
                if not isinstance(case, Result) and not isinstance(case.plan, Result)
            ]
            verdicts = iter(await forecast.of(able, now=now, include_parked=True))
            for case in cases:
                if isinstance(case, Result):
                    yield case
                elif isinstance(case.plan, Result):
                    yield case.plan
                else:
                    verdict = next(verdicts)
                    yield Result(case.letter.id, verdict.outcome, verdict.detail, verdict.reason)
