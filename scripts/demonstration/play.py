"""Plays a demo: a server's messages go in, ratings come out, and a worker is killed in the middle."""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import chain

from arq.connections import ArqRedis
from redis.asyncio import Redis

from demonstration.ledger_check import Account, Ledger
from demonstration.matches import DAMAGED, LADDER, Delivery, Door, deliveries
from demonstration.screen import Figures, Screen
from demonstration.workers import Group, Worker, until
from match_ratings import JOB, QUEUE, MatchFinished, enqueue, publish, rating_updates
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_keys import Keys

__all__ = ["Play"]

#: Matches in a second, and the longest that all may take when the workers keep up, in seconds.
_PER_SECOND, _LONGEST = 200, 15.0
#: After this share of the matches, this share comes all at once, but so many at most.
_BURST, _BURST_SHARE, _LARGEST_BURST = 0.4, 0.2, 2000
#: Messages that are sent at once when more are due than one after the other would go.
_TOGETHER = 50
#: What becomes of messages that are about a match sent before.
_ABOUT_ANOTHER = ("duplicate", "dead:conflict")
#: Messages that may wait before no more are sent.
_MOST_WAITING = 20_000
#: Seconds between two looks at how far things are, and those over which a speed is taken.
_TICK, _SPEED_OVER = 0.1, 1.0
#: Seconds for which nothing may move before a demo is given up.
_PATIENCE = 30.0
#: Seconds before a killed worker is started anew.
_DOWN = 1.0
#: Matches whose way is timed, at most.
_TIMED = 100_000


@dataclass(slots=True)
class Play:
    """One demo, on a server whose workers have been started."""

    redis: Redis
    arq: ArqRedis
    #: A pool as arq makes it by default.
    pickling: ArqRedis
    workers: list[Worker]
    screen: Screen
    matches: int
    seed: int
    keys: Keys = field(default_factory=lambda: Keys(LADDER))
    #: What was sent, and what the rating updates said.
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=lambda: Ledger(Backgammon()))
    #: How long it took in all, in seconds, and for matches before the rush from inbox to ledger, in ms.
    seconds: float = 0.0
    ways: list[int] = field(default_factory=list)
    _begun: float = 0.0
    _timed: int = 1
    _settled: int = 0
    #: When published matches entered the inbox, in ms.
    _entered: dict[str, int] = field(default_factory=dict)
    #: What is sent next, all at once.
    _together: list[Delivery] = field(default_factory=list)
    #: Jobs that wait until the worker has been killed; None when none need to.
    _held: list[Delivery] | None = None

    async def run(self) -> None:
        """Plays it all, until everything is settled or nothing moves any more.

        Raises Failure when a worker ends by itself, or what the demo waits for does not come.
        """
        group = Group(self.redis, self.keys.inbox)
        await asyncio.gather(*map(group.until_there, self.workers))
        # No worker can do anything about this, so that there is a dead letter with the reason `failed`.
        await self.redis.execute_command("HSET", self.keys.player(DAMAGED), "rating", "damaged")
        self._begun = time.monotonic()
        with self.screen.running():
            tasks = [
                asyncio.create_task(act) for act in (self._send_all(group), self._follow(), self._measure())
            ]
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
        """The ms in which half of the matches before the rush came from the inbox to the ledger."""
        return statistics.median(self.ways) if self.ways else 0.0

    async def _send_all(self, group: Group) -> None:
        first = int(self.matches * _BURST)
        last = first + min(int(self.matches * _BURST_SHARE), _LARGEST_BURST)
        self._timed = min(max(first, 1), _TIMED)
        pause = min(1 / _PER_SECOND, _LONGEST / self.matches)
        kill: asyncio.Task[None] | None = None
        for delivery in deliveries(self.matches, self.seed, int(time.time() * 1000)):
            number = delivery.number
            due = self._begun + pause * (min(number, first) + max(number - last, 0))
            early = due - time.monotonic()
            # A match must be there before it is sent again; else what is due at once may overtake each other.
            if early > 0 or len(self._together) == _TOGETHER or delivery.becomes in _ABOUT_ANOTHER:
                await self._send()
            if early > 0.005:
                await asyncio.sleep(early)
            if self._is_full():
                await until(self._has_room, "the workers did not keep up")
            if len(self.workers) > 1 and first < number <= last and self._held is None:
                await self._hold_up(last - first)
            if number > last and self._held is not None:
                kill = await self._let_go(group)
            (self._together if self._held is None or delivery.door is not Door.JOB else self._held).append(
                delivery
            )
        await self._send()
        if self._held is not None:
            kill = await self._let_go(group)
        if kill is not None:
            await kill
        await self._until_settled()

    async def _send(self) -> None:
        """Sends what is due."""
        together, self._together = self._together, []
        await asyncio.gather(*map(self._send_one, together))

    async def _send_one(self, delivery: Delivery) -> None:
        message = delivery.message
        if message is None:
            fields = chain.from_iterable(delivery.fields.items())
            await self.redis.execute_command("XADD", self.keys.inbox, "*", *fields)
        elif delivery.door is Door.JOB:
            await enqueue(self.arq, message)
        elif delivery.door is Door.PICKLED:
            await self.pickling.enqueue_job(JOB, message.model_dump(), _queue_name=QUEUE)
        else:
            entry_id = await publish(self.redis, message)
            if isinstance(message, MatchFinished) and delivery.number <= self._timed:
                self._entered[message.match_id] = _ms(entry_id)
        self.account.add(delivery)

    async def _follow(self) -> None:
        """Reads the rating updates, as a lobby does."""
        async for event in rating_updates(self.redis, LADDER, start="0"):
            self.ledger.add(event)
            self.screen.updated(event)
            entered = self._entered.get(event.match_id or "")
            if entered is not None:
                self.ways.append(_ms(event.id or "") - entered)

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

    async def _hold_up(self, matches: int) -> None:
        """Stops all workers, so that many messages wait when they go on."""
        await self._send()
        # A job that a killed arq worker had in hand is run again only after a long time: there shall be none.
        await until(self._no_jobs, "the jobs were not run")
        self._held = []
        for worker in self.workers:
            worker.signal(signal.SIGSTOP)
        self.screen.say(f"all workers are held up (SIGSTOP) while {matches:,} matches come at once")

    async def _let_go(self, group: Group) -> asyncio.Task[None]:
        """Lets the workers go on, one of them first, which is killed and started anew in the background."""
        await self._send()
        victim = self.workers[-1]
        name, pending = await group.kill(victim)
        self.screen.say(
            f"worker {victim.number} goes on first, and is killed (SIGKILL) with {pending:,} messages in hand"
        )
        self.screen.say("until others take them over, those players' matches wait")
        for worker in self.workers:
            worker.signal(signal.SIGCONT)
        self._together += self._held or []
        self._held = None
        return asyncio.create_task(self._start_anew(group, victim, name))

    async def _start_anew(self, group: Group, worker: Worker, name: str) -> None:
        await asyncio.sleep(_DOWN)
        worker.start()
        await group.until_there(worker)
        self.screen.say(f"worker {worker.number} is started anew")
        await group.until_taken_over(name)
        self.screen.say("what the killed worker had in hand has been taken over")

    def _is_full(self) -> bool:
        return self.account.outcomes.total() - self._settled > _MOST_WAITING

    async def _has_room(self) -> bool:
        return not self._is_full()

    async def _no_jobs(self) -> bool:
        return not await self.redis.zcard(QUEUE)

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


def _ms(stream_id: str) -> int:
    return int(stream_id.partition("-")[0])
