"""The whole engine against the simple model: any messages, any number of workers, any order of their steps.

Hypothesis makes up messages (few players and few ids, so that duplicates, conflicts and late matches are the
rule) and what happens to up to four engines on a real server: they claim, work, are stopped between two
commands, lose replies, take over each other's messages, leave, or are thrown away. However that goes, the
ladder must end as the model says, which knows one message after another and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, RedisError

from embedded import Endpoint, Server
from match_ratings.stream_names import FIELD
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.rating.gammon42 import Rules
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.redis_connection import open_pipelined
from tests.support.clock import DAY, MINUTE, now_ms
from tests.support.flaky import Flaky
from tests.support.model import HORIZON, Model, Picture, match, raw, stored, tournament, void
from tests.support.servers import RUN
from tests.support.waiting import PATIENCE, eventually

PLAYERS = ["ann", "bob", "çem", 'd{}:"? ']
NUMBERS = itertools.count()


class Busy(Backgammon):
    """The backgammon system with K halved from 3 games in 7 days on, so that a few matches reach it."""

    def rules_in_force(self, finished_at: int) -> Rules:
        return super().rules_in_force(finished_at)._replace(heavy_from=3)


# Messages. Each is a function of the time at which the test runs; none comes close to a limit of it.

Message = Callable[[int, str], bytes | None]

#: How old a match is when it is sent: the limits of the window between two matches are met exactly.
AGES = st.sampled_from(
    [day * DAY + extra for day in (0, 1, 6, 7, 8, 13) for extra in (MINUTE, MINUTE + 1, MINUTE - 1)]
)


@st.composite
def matches(draw: st.DrawFn) -> Message:
    """A match that is right, or wrong in one way."""
    first, second = draw(st.permutations(PLAYERS))[:2]
    age = draw(AGES)
    fields: dict[str, Any] = {"cube": draw(st.sampled_from([1, 1, 1, 2, 64]))}
    fields["winner"] = draw(
        st.sampled_from([first, first, second, None] if draw(st.booleans()) else [first, second])
    )
    number = draw(st.sampled_from(range(20)))
    wrong: dict[str, Any] = draw(
        st.sampled_from(
            [{}] * 30
            + [
                {"mode": "boosted"},
                {"mode": "casual"},
                {"mode": "tournament"},
                {"players": [first, first]},
                {"ladder": "elsewhere"},
                {"version": 2},
                {"cube": 3},
                {"cube": "2"},
                {"winner": "nobody"},
                {"match_id": ""},
                {"players": [first, 7]},
                {"type": "duel"},
                {"finished_at": 1_700_000_000},
                {"age": HORIZON + 60 * MINUTE},
                {"age": -30 * MINUTE},
            ]
        )
    )

    def message(now: int, ladder: str) -> bytes:
        built = match(f"m{number}", (first, second), ladder=ladder, **fields)
        built |= {"ladder": ladder, "finished_at": now - wrong.get("age", age), **wrong}
        built.pop("age", None)
        return raw(built)

    return message


@st.composite
def tournaments(draw: st.DrawFn) -> Message:
    podium = tuple(draw(st.permutations(PLAYERS))[: draw(st.integers(1, 3))])
    number, age, public = draw(st.integers(0, 2)), draw(AGES), draw(st.sampled_from([True, True, False]))
    fields = draw(st.sampled_from([{}, {}, {"prizes": [9] * len(podium)}, {"prizes": [1, 2, 3, 4]}]))

    def message(now: int, ladder: str) -> bytes:
        built = tournament(f"t{number}", podium, public=public, finished_at=now - age, **fields)
        return raw(built | {"ladder": ladder})

    return message


@st.composite
def voids(draw: st.DrawFn) -> Message:
    """A match is taken back, perhaps one that was never rated, or was between others."""
    first, second = draw(st.permutations(PLAYERS))[:2]
    number, why = draw(st.sampled_from(range(20))), draw(st.sampled_from(["one reason", "another"]))

    def message(now: int, ladder: str) -> bytes:
        return raw(void(f"m{number}", (first, second), why=why, finished_at=now) | {"ladder": ladder})

    return message


#: No message, no JSON, no text, JSON of another kind, half an id, too large.
RUBBISH: list[bytes | None] = [
    None,
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b'{"match_id":"m1","players":["ann","bob"]}',
    b'{"match_id":"m2","players":["\xff","bob"],"winner":"bob","finished_at":1}',
    b"x" * 20_000,
]


@dataclass
class Again:
    """The message sent `back` messages ago once more, in other words."""

    back: int
    how: int

    def of(self, text: bytes | None) -> bytes | None:
        try:
            data = json.loads(text or b"")
        except ValueError:
            return text
        if not isinstance(data, dict) or not isinstance(data.get("finished_at"), int):
            return text
        if self.how & 1:
            data = dict(reversed(data.items()))
        if self.how & 2 and data["finished_at"] > 10**12:
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=data["finished_at"])
            data["finished_at"] = time.isoformat()
        if self.how & 4 and "players" in data:
            data["players"] = data["players"][::-1]
        if self.how & 8:
            data["hops"] = [1]
        return json.dumps(data, indent=self.how & 1).encode()


@dataclass
class TakeBack:
    """The match sent `back` messages ago is taken back."""

    back: int

    def of(self, text: bytes | None) -> bytes | None:
        try:
            data = json.loads(text or b"")
            first, second = data["players"]
            if first == second:
                return text
            taken = void(data["match_id"], (first, second), finished_at=data["finished_at"])
            return raw(taken | {"ladder": data["ladder"]})
        except (ValueError, KeyError, TypeError):
            return text


KINDS = {
    "match": matches(),
    "again": st.builds(Again, st.integers(1, 6), st.integers(0, 15)),
    "take back": st.builds(TakeBack, st.integers(1, 6)),
    "tournament": tournaments(),
    "void": voids(),
    "rubbish": st.sampled_from(RUBBISH).map(lambda text: lambda now, ladder: text),
}
SENT = st.sampled_from(
    ["match"] * 12 + ["again"] * 4 + ["tournament", "take back"] * 2 + ["void", "rubbish"]
).flatmap(KINDS.__getitem__)


# What happens to the engines


class Wire(ClientExecutor):
    """A connection that can stop before a command, and lose a reply or a command, when it is told to."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        #: Commands until the one that is stopped, or lost; None for never.
        self.stop_in: int | None = None
        self.lose_in: int | None = None
        self.lose_the_reply = True
        self.stopped = asyncio.Event()
        self.go_on = asyncio.Event()

    async def call(self, *args: Any) -> Any:
        if self.stop_in is not None:
            self.stop_in -= 1
            if self.stop_in < 0:
                self.stop_in = None
                self.stopped.set()
                await self.go_on.wait()
        if self.lose_in is not None:
            self.lose_in -= 1
            if self.lose_in < 0:
                self.lose_in = None
                if self.lose_the_reply:
                    await super().call(*args)
                raise ConnectionError("the test has lost it")
        return await super().call(*args)


@dataclass
class Worker:
    """An engine as its loop would use it."""

    engine: BatchProcessor
    wire: Wire
    #: A round of work that is stopped between two commands.
    stopped: asyncio.Task[None] | None = None

    async def does(self, act: Callable[[], Awaitable[object]]) -> None:
        """A step; after a lost connection the engine forgets and takes up its own, as the loop does."""
        try:
            await act()
        except RedisError:
            self.engine.reset()
            self.wire.lose_in = None
            await self.engine.claim_own()

    async def works(self) -> None:
        await self.engine.settle()
        await self.engine.drain()

    async def goes_on(self) -> None:
        """Finishes what is stopped."""
        if self.stopped is not None:
            self.wire.go_on.set()
            await self.stopped
            self.stopped = None
        self.wire.stop_in = None

    async def dies(self) -> None:
        """Is gone at this very moment: what it was about to send is never sent."""
        if self.stopped is not None:
            self.stopped.cancel()
            await asyncio.wait({self.stopped})
        self.engine.reset()


@dataclass
class Step:
    """Something that happens to one engine."""

    what: str
    who: int
    count: int


STEPS = st.builds(
    Step,
    st.sampled_from(
        ["send"] * 4
        + ["claim"] * 4
        + ["work"] * 4
        + [
            "take over",
            "stop",
            "stop",
            "go on",
            "lose reply",
            "lose command",
            "probe",
            "die",
            "leave",
            "heal",
        ]
    ),
    st.integers(0, 3),
    st.integers(0, 5),
)


@dataclass
class Stage:
    """A ladder, its messages still to be sent, and its engines."""

    redis: Redis
    ladder: str
    now: int
    messages: list[bytes | None]
    limits: Limits
    workers: dict[int, Worker] = field(default_factory=dict)
    sent: list[tuple[str, bytes | None]] = field(default_factory=list)
    hired: Iterator[int] = field(default_factory=itertools.count)

    def store(self, wire: Wire | None = None) -> LadderStore:
        return LadderStore(self.redis, self.ladder, Busy(), horizon=HORIZON, executor=wire)

    def worker(self, who: int) -> Worker:
        if who not in self.workers:
            wire = Wire(self.redis)
            name = f"worker-{who}-{next(self.hired)}"
            self.workers[who] = Worker(
                BatchProcessor(self.store(wire), self.ladder, Busy(), name, self.limits), wire
            )
        return self.workers[who]

    async def send(self, count: int) -> None:
        for _ in range(min(count, len(self.messages))):
            message = self.messages.pop(0)
            fields = {"other": "field"} if message is None else {FIELD: message}
            entry_id = await self.redis.xadd(f"ratings:{{{self.ladder}}}:match-finished", fields)  # type: ignore[arg-type]
            self.sent.append((entry_id.decode(), message))

    async def step(self, step: Step) -> None:
        if step.what == "send":
            return await self.send(step.count + 1)
        worker = self.worker(step.who)
        engine = worker.engine
        if step.what == "claim":  # also while its work is stopped: the loop does both at once
            await worker.does(engine.claim_new)
        elif step.what == "stop":
            await worker.goes_on()
            await self.stop(worker, step.count)
        elif step.what == "go on":
            await worker.goes_on()
        elif step.what == "die":
            await worker.dies()
            del self.workers[step.who]
        elif worker.stopped is None:
            if step.what == "work":
                await worker.does(worker.works)
            elif step.what == "probe":
                await worker.does(lambda: engine.settle(probe=True))
            elif step.what == "take over":
                await worker.does(engine.claim_stale)
            elif step.what == "heal":
                await worker.does(engine.unblock)
            elif step.what == "leave":
                await worker.does(engine.shut_down)
                del self.workers[step.who]
            else:
                worker.wire.lose_in = step.count
                worker.wire.lose_the_reply = step.what == "lose reply"
                await worker.does(worker.works if step.count % 2 else engine.claim_new)
                worker.wire.lose_in = None
        return None

    async def stop(self, worker: Worker, after: int) -> None:
        """Starts a round of work that stops after some commands, and leaves it there."""
        wire = worker.wire
        wire.stop_in, wire.stopped, wire.go_on = after, asyncio.Event(), asyncio.Event()
        worker.stopped = asyncio.create_task(worker.does(worker.works))
        reached = asyncio.create_task(wire.stopped.wait())
        await asyncio.wait({worker.stopped, reached}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if worker.stopped.done():
            worker.stopped.result()
            worker.stopped, wire.stop_in = None, None

    async def finish(self) -> None:
        """The workers are gone, some of them in the middle of something; one more clears up."""
        await self.send(len(self.messages))
        stopped = [worker for worker in self.workers.values() if worker.stopped is not None]
        self.workers.clear()
        last = Worker(
            BatchProcessor(self.store(), self.ladder, Busy(), "last", self.limits), Wire(self.redis)
        )
        for number in range(400):
            await last.engine.claim_stale()
            await last.engine.claim_new()
            await last.works()
            if number == 2:  # by now it has had some of what the others are still about to write
                for worker in stopped:
                    await worker.goes_on()
            if number > 2 and not await self.redis.xlen(f"ratings:{{{self.ladder}}}:match-finished"):
                return
        raise AssertionError(f"not finished; the last worker holds {last.engine.waiting}")


@pytest.fixture(scope="module")
def loop(server: Endpoint) -> Iterator[asyncio.Runner]:
    """One event loop for all examples."""
    with asyncio.Runner() as runner, structlog.testing.capture_logs():
        yield runner


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    batch, chunk, waiting = draw(st.integers(1, 8)), draw(st.integers(1, 4)), draw(st.integers(2, 12))
    return Limits(batch=batch, chunk=chunk, waiting=waiting, attempts=10_000, idle=0)


ANY_ORDER = settings(
    max_examples=75, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
STEPS_TAKEN = st.lists(STEPS, max_size=12) | st.lists(STEPS, min_size=24, max_size=60)


@ANY_ORDER
@given(messages=st.lists(SENT, min_size=1, max_size=8), steps=STEPS_TAKEN, limits=limits())
def test_any_engines_in_any_order_end_as_the_model_says(
    server: Endpoint,
    loop: asyncio.Runner,
    messages: list[Message | Again | TakeBack],
    steps: list[Step],
    limits: Limits,
) -> None:
    end_as_the_model_says(server, loop, messages, steps, limits)


@ANY_ORDER
@given(messages=st.lists(SENT, min_size=16, max_size=40), steps=STEPS_TAKEN, limits=limits())
def test_with_many_messages_they_do_too(
    server: Endpoint,
    loop: asyncio.Runner,
    messages: list[Message | Again | TakeBack],
    steps: list[Step],
    limits: Limits,
) -> None:
    end_as_the_model_says(server, loop, messages, steps, limits)


def end_as_the_model_says(
    server: Endpoint,
    loop: asyncio.Runner,
    messages: list[Message | Again | TakeBack],
    steps: list[Step],
    limits: Limits,
) -> None:
    ladder = f"t-{RUN}-model-{next(NUMBERS)}"
    with server.client() as client:
        seconds, micros = client.time()
        now = seconds * 1000 + micros // 1000
        raws: list[bytes | None] = []
        for message in messages:
            if isinstance(message, Again | TakeBack):
                raws.append(message.of(raws[-min(message.back, len(raws))]) if raws else b"")
            else:
                raws.append(message(now, ladder))
        sent = loop.run(play(server, ladder, now, raws, steps, limits))
        # The model is fed what the stream held, in its order.
        expected = Model(ladder, now=now, system=Busy()).feed_all(sent)
        assert_same(stored(client, ladder), expected)
        client.unlink(*client.scan_iter(match=f"ratings:{{{ladder}}}:*", count=10_000))


async def play(
    server: Endpoint, ladder: str, now: int, raws: list[bytes | None], steps: list[Step], limits: Limits
) -> list[tuple[str, bytes | None]]:
    """Carries the steps out and returns what was sent, with its ids."""
    async with Redis.from_url(server.url) as redis:
        stage = Stage(redis, ladder, now, list(raws), limits)
        store = stage.store()
        await store.join_group()
        await store.ensure_adopted()
        async with asyncio.timeout(PATIENCE):
            for step in steps:
                await stage.step(step)
            await stage.finish()
        return stage.sent


@pytest.mark.parametrize("seed", range(3))
async def test_loops_whose_connections_keep_breaking_end_as_the_model_says(
    own_server: Server, ladder: str, seed: int
) -> None:
    # Given two loops, each over a connection that breaks again and again, also with commands on their way
    draw = random.Random(seed)
    now = now_ms()
    replies = [draw.choice([0, 1, 2, 3, 5, 8, 13, 30]) for _ in range(60)]
    sent = []
    async with Flaky(own_server, replies) as flaky, Redis.from_url(own_server.url) as redis:
        url = f"redis://127.0.0.1:{flaky.port}/0"
        stores = [
            LadderStore(redis, ladder, Busy(), horizon=HORIZON, executor=open_pipelined(url, "any"))
            for _ in range(2)
        ]
        limits = Limits(batch=20, chunk=4, waiting=40, attempts=10_000, idle=2_000)
        loops = [
            StreamConsumer(BatchProcessor(store, ladder, Busy(), f"w-{n}", limits))
            for n, store in enumerate(stores)
        ]
        tasks = [asyncio.create_task(intake.run()) for intake in loops]
        # When many messages come
        for number in range(600):
            first, second = draw.sample(PLAYERS, 2)
            match_id = f"m-{number if draw.random() < 0.9 else draw.randrange(600)}"
            at = now - draw.randrange(12 * DAY)
            message = raw(match(match_id, (first, second), finished_at=at) | {"ladder": ladder})
            entry_id = await redis.xadd(stores[0].keys.inbox, {FIELD: message})
            sent.append((entry_id.decode(), message))
            if number % 30 == 0:
                await eventually(partial(_is_below, redis, stores[0].keys.inbox, 300))
        await eventually(partial(_is_below, redis, stores[0].keys.inbox, 1))
        for intake in loops:
            intake.stop()
        await asyncio.gather(*tasks)
        for store in stores:
            await store.executor.close()
    # Then each was rated once, in order
    assert len(replies) <= 52, "the connections have not broken"
    with own_server.client() as client:
        assert_same(stored(client, ladder), Model(ladder, now=now, system=Busy()).feed_all(sent))


async def _is_below(redis: Redis, stream: str, length: int) -> bool:
    return bool(await redis.xlen(stream) < length)


def assert_same(found: Picture, expected: Picture) -> None:
    """Compares part by part, the most telling first, so that a failure says what differs."""
    for part in (
        "unfinished",
        "dead",
        "sequences",
        "events",
        "ratings",
        "games",
        "last_game",
        "windows",
        "receipts",
        "counts",
    ):
        assert getattr(found, part) == getattr(expected, part), part
    assert found == expected
