"""Plays a demo: a server's messages go in, ratings come out, and a worker is killed in the middle."""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from arq.connections import ArqRedis
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from contracts import JOB, QUEUE, enqueue, publish, rating_updates
from contracts.names import GROUP
from demo_check import Account, Ledger
from demo_matches import DAMAGED, LADDER, Delivery, Door, deliveries
from demo_screen import Figures, Screen
from demo_workers import Ended, Worker
from worker.keys import Keys
from worker.rating import Backgammon

__all__ = ["Play"]

#: Matches in a second, and the longest that all may take when the workers keep up, in seconds.
_PER_SECOND, _LONGEST = 200, 15.0
#: The part of the matches that comes all at once, in the middle.
_BURST = (0.4, 0.6)
#: Seconds between two looks at how far things are, and those over which a speed is taken.
_TICK, _SPEED_OVER = 0.1, 1.0
#: Seconds that a worker may take to start, and for which nothing may move before a demo is given up.
_START, _PATIENCE = 20.0, 30.0
#: Seconds before a killed worker is started anew.
_DOWN = 1.0
#: Messages whose way is timed.
_TIMED = 100_000


@dataclass(slots=True)
class Play:
    """One demo, on a server whose workers have been started."""

    redis: Redis
    arq: ArqRedis
    workers: list[Worker]
    screen: Screen
    matches: int
    seed: int
    keys: Keys = field(default_factory=lambda: Keys(LADDER))
    #: What was sent, and what the rating updates said.
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=lambda: Ledger(Backgammon()))
    #: How long it took in all, in seconds, and from the inbox to the ledger, in ms.
    seconds: float = 0.0
    ways: list[int] = field(default_factory=list)
    _begun: float = 0.0
    _settled: int = 0
    _written: dict[str, int] = field(default_factory=dict)
    #: Jobs that wait until the worker has been killed; None when none need to.
    _held: list[Delivery] | None = None

    async def run(self) -> None:
        """Plays it all, until everything is settled or nothing moves any more.

        Raises Ended when a worker ends by itself.
        """
        await asyncio.gather(*(self._until_ready(worker) for worker in self.workers))
        self.screen.say(
            f"{len(self.workers)} {'worker is' if len(self.workers) == 1 else 'workers are'} rating"
        )
        # Nothing can be done about this, so that there is a dead letter with the reason `failed`.
        await self.redis.execute_command("HSET", self.keys.player(DAMAGED), "rating", "damaged")
        self._begun = time.monotonic()
        with self.screen.running():
            tasks = [asyncio.create_task(act()) for act in (self._send_all, self._follow, self._measure)]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            self.seconds = time.monotonic() - self._begun

    @property
    def usual_way(self) -> float:
        """The ms that half of the published matches took at most from the inbox to the ledger."""
        return statistics.median(self.ways) if self.ways else 0.0

    async def _send_all(self) -> None:
        burst = [int(self.matches * part) for part in _BURST]
        steady = min(self.matches / _PER_SECOND, _LONGEST) / self.matches
        kill: asyncio.Task[None] | None = None
        for delivery in deliveries(self.matches, self.seed, int(time.time() * 1000)):
            number = delivery.number
            due = (min(number, burst[0]) + max(number - burst[1], 0)) * steady
            if (early := self._begun + due - time.monotonic()) > 0.005:
                await asyncio.sleep(early)
            if number > burst[0] and kill is None and len(self.workers) > 1:
                self.screen.say(f"{burst[1] - burst[0]:,} matches come at once")
                kill = await self._begin_kill(self.workers[-1])
            if self._held is not None and delivery.door is Door.JOB:
                self._held.append(delivery)
            else:
                await self._send(delivery)
            self.account.add(delivery)
        if kill is not None:
            await kill
        await self._until_settled()

    async def _send(self, delivery: Delivery) -> None:
        message = delivery.message
        if message is None:
            await self.redis.execute_command("XADD", self.keys.inbox, "*", *chain(*delivery.fields.items()))
        elif delivery.door is Door.JOB:
            await enqueue(self.arq, message)
        elif delivery.door is Door.PICKLED:
            self.arq.job_serializer = None  # arq's default is pickle
            await self.arq.enqueue_job(JOB, message.model_dump(), _queue_name=QUEUE)
        else:
            written = await publish(self.redis, message)
            if len(self._written) < _TIMED:
                self._written[getattr(message, "match_id", "")] = _ms(written)

    async def _follow(self) -> None:
        """Reads the rating updates, as a lobby does."""
        async for event in rating_updates(self.redis, LADDER, start="0"):
            self.ledger.add(event)
            self.screen.updated(event)
            written = self._written.get(event.match_id or "")
            if written is not None and len(self.ways) < _TIMED:
                self.ways.append(_ms(event.id or "0") - written)

    async def _measure(self) -> None:
        """Looks how far things are, and whether the workers live."""
        past = deque([(self._begun, 0)], maxlen=int(_SPEED_OVER / _TICK))
        while True:
            for worker in self.workers:
                worker.check()
            counted = await self.redis.execute_command("HVALS", self.keys.counts)
            self._settled, now = sum(map(int, counted)), time.monotonic()
            then, settled = past[0]
            past.append((now, self._settled))
            self.screen.show(
                Figures(
                    matches=self.matches,
                    sent=self.account.matches,
                    messages=self.account.outcomes.total(),
                    settled=self._settled,
                    speed=(self._settled - settled) / max(now - then, _TICK),
                    seconds=now - self._begun,
                    workers=[worker.state for worker in self.workers],
                )
            )
            await asyncio.sleep(_TICK)

    async def _until_settled(self) -> None:
        """Waits until all messages are settled and all their updates were read."""
        moved, before = time.monotonic(), (-1, -1)
        while time.monotonic() - moved < _PATIENCE:
            newest = await self.redis.xrevrange(self.keys.outbox, count=1)
            read = not newest or newest[0][0].decode() == self.ledger.last
            if read and self._settled >= self.account.outcomes.total():
                await asyncio.sleep(2 * _TICK)  # the screen shows it
                return
            if (now := (self._settled, self.ledger.events)) != before:
                moved, before = time.monotonic(), now
            await asyncio.sleep(0.02)
        self.screen.say(f"nothing has moved for {_PATIENCE:.0f} s")

    async def _begin_kill(self, worker: Worker) -> asyncio.Task[None]:
        # A job in the hands of a killed arq worker is not run again for a long time: there shall be none.
        await _until(self._no_jobs)
        self._held = []
        return asyncio.create_task(self._kill(worker))

    async def _kill(self, worker: Worker) -> None:
        """Kills a worker in the middle of its work and starts it anew."""
        name, pending = await self._catch(worker)
        worker.kill()
        self.screen.say(f"worker {worker.number} is killed (SIGKILL) with {pending:,} messages in hand")
        held, self._held = self._held or [], None
        for delivery in held:
            await self._send(delivery)
        await asyncio.sleep(_DOWN)
        worker.start()
        await self._until_ready(worker)
        self.screen.say(f"worker {worker.number} is started anew")
        if pending:
            await _until(lambda: self._is_gone(name))
            self.screen.say("what the killed worker had in hand has been taken over")

    async def _catch(self, worker: Worker) -> tuple[bytes, int]:
        """Stops a worker at a moment when it has messages in hand; its consumer name and how many."""
        end = time.monotonic() + 3
        while True:
            worker.signal(signal.SIGSTOP)
            found = await self._consumer(worker)
            if found and (found["pending"] or time.monotonic() > end):
                return found["name"], found["pending"]
            worker.signal(signal.SIGCONT)
            await asyncio.sleep(0.003)

    async def _until_ready(self, worker: Worker) -> None:
        end = time.monotonic() + _START
        while await self._consumer(worker) is None:
            worker.check()
            if time.monotonic() > end:
                raise Ended(f"worker {worker.number} did not start within {_START:.0f} s")
            await asyncio.sleep(0.02)
        worker.state = "rating"

    async def _consumer(self, worker: Worker) -> dict[str, Any] | None:
        pid = str(worker.pid).encode()
        for info in await self._consumers():
            if info["name"].split(b":")[-2:-1] == [pid]:
                return info
        return None

    async def _is_gone(self, name: bytes) -> bool:
        return not any(info["name"] == name and info["pending"] for info in await self._consumers())

    async def _no_jobs(self) -> bool:
        return not await self.redis.zcard(QUEUE)

    async def _consumers(self) -> list[dict[str, Any]]:
        try:
            return list(await self.redis.xinfo_consumers(self.keys.inbox, GROUP))
        except ResponseError:  # no worker has made the group yet
            return []


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await holds():
            return
        await asyncio.sleep(0.02)


def _ms(stream_id: str) -> int:
    return int(stream_id.partition("-")[0])
