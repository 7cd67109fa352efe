"""The arq door: what becomes of a job, whoever wrote it and however wrong it is."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import pickle
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.constants import in_progress_key_prefix, job_key_prefix
from arq.jobs import deserialize_job_raw, serialize_job
from arq.utils import ms_to_datetime
from arq.worker import Worker, create_worker, get_kwargs
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import WatchError

from embedded import Server
from match_ratings import JOB, QUEUE, MatchFinished, RatingUpdated, Reason, TournamentFinished, enqueue
from match_ratings_worker.jobs.arq_worker_settings import worker_settings
from match_ratings_worker.jobs.json_job_serializer import decode_job, encode_job
from match_ratings_worker.jobs.match_finished_job import match_finished, store_unreadable_job
from match_ratings_worker.runtime.arq_pool import arq_pool
from match_ratings_worker.runtime.arq_worker import GracefulWorker
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER
from tests.support.clock import now_ms
from tests.support.flaky import Flaky
from tests.support.model import match, raw, tournament
from tests.support.waiting import eventually

KEYS = "ratings:{backgammon}:"

#: arq closes its connections in redis-py's old way.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")


class Site:
    """A server with a worker of ours at it, and with other programs that write jobs."""

    def __init__(self, server: Server, redis: Redis, pool: ArqRedis) -> None:
        self.server, self.redis, self.pool = server, redis, pool
        self.now = now_ms()

    def match(self, match_id: str = "m-1", **fields: Any) -> MatchFinished:
        return MatchFinished.model_validate(match(match_id, finished_at=self.now, **fields))

    async def write(self, job: bytes, job_id: str = "a-job") -> None:
        """Puts a job into the queue byte by byte, as no arq would."""
        await self.redis.set(job_key_prefix + job_id, job)
        await self.redis.zadd(QUEUE, {job_id: self.now})

    async def events(self) -> list[RatingUpdated]:
        entries = await self.redis.xrange(KEYS + "rating-updated")
        return [RatingUpdated.model_validate_json(fields[b"message"]) for _, fields in entries]

    async def dead(self) -> list[tuple[str, bytes]]:
        """Reason and bytes of each dead letter."""
        entries = await self.redis.xrange(KEYS + "dead-letters")
        return [(fields[b"reason"].decode(), fields[b"message"]) for _, fields in entries]

    async def quiet(self) -> bool:
        """Whether no job and no message is left."""
        return not await self.redis.zcard(QUEUE) and not await self.redis.xlen(KEYS + "match-finished")


@pytest.fixture
async def site(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A server for the test alone, without a worker yet."""
    monkeypatch.setenv("RATINGS_REDIS_URL", own_server.url)
    monkeypatch.delenv("RATINGS_CONFIG", raising=False)
    # The logs of this process are pytest's.
    monkeypatch.setattr("match_ratings_worker.jobs.arq_worker_settings.configure_logging", lambda *_: None)
    thresholds = gc.get_threshold()  # a worker sets its own
    pool = await create_pool(RedisSettings(port=own_server.port))
    async with Redis.from_url(own_server.url) as redis:
        yield Site(own_server, redis, pool)
    await pool.aclose(close_connection_pool=True)
    gc.set_threshold(*thresholds)


@contextlib.asynccontextmanager
async def rating(site: Site) -> AsyncIterator[Worker]:
    """A worker at work, as arq runs it; it must still be running at the end."""
    worker = create_worker(worker_settings(), handle_signals=False)
    task = asyncio.create_task(worker.async_run())
    try:
        yield worker
        assert not task.done(), f"the worker has ended: {task.exception()}"
    finally:
        task.cancel()
        await asyncio.wait({task})
        if worker.tasks:  # a job that is cancelled makes arq's close fail; how that ends is tested below
            await asyncio.wait(set(worker.tasks.values()))
            worker.tasks.clear()
        await worker.close()


# Jobs that are right


async def test_a_match_and_a_tournament_become_events(site: Site) -> None:
    # Given a worker; when a server enqueues messages
    async with rating(site):
        await enqueue(site.pool, site.match())
        await eventually(site.events)
        await enqueue(site.pool, TournamentFinished.model_validate(tournament(finished_at=site.now)))
        await eventually(lambda: _count(site, 2))
        # Then each has its event, and no job is left
        assert [event.match_id or event.tournament_id for event in await site.events()] == ["m-1", "t-1"]
        await eventually(site.quiet)
        assert await site.redis.keys("arq:job:*") == []
        assert await site.redis.keys("arq:result:*") == []
        assert await site.dead() == []


async def _count(site: Site, count: int) -> bool:
    return len(await site.events()) == count


async def test_both_doors_lead_to_one_path(site: Site) -> None:
    # Given the same match by the stream and twice as a job, and a conflict as a job
    async with rating(site):
        await site.redis.xadd(KEYS + "match-finished", {"message": site.match().model_dump_json()})
        await eventually(site.events)
        for message in (site.match(), site.match(), site.match(cube=2)):
            await enqueue(site.pool, message)
        await eventually(site.dead)
        await eventually(site.quiet)
        # Then arq has swallowed none of them, and it is rated once
        counts = await site.redis.hgetall(KEYS + "counts")  # type: ignore[misc]
        assert counts == {b"rated": b"1", b"duplicate": b"2", b"dead:conflict": b"1"}


@pytest.mark.parametrize("how", ["an object", "its JSON", "by name"])
async def test_a_server_may_enqueue_the_payload_itself(site: Site, how: str) -> None:
    site.pool.job_serializer = lambda job: json.dumps(job).encode()
    payload: dict[str, Any] = {**match(finished_at=site.now), "note": "é\U0001f3b2"}
    async with rating(site):
        if how == "by name":
            await site.pool.enqueue_job(JOB, payload=payload, _queue_name=QUEUE)
        else:
            argument = payload if how == "an object" else json.dumps(payload, indent=2)
            await site.pool.enqueue_job(JOB, argument, _queue_name=QUEUE)
        await eventually(site.events)
    assert [event.match_id for event in await site.events()] == ["m-1"]


async def test_enqueue_leaves_the_servers_own_jobs_as_they_were(site: Site) -> None:
    # Given a server that already uses arq in its own way: pickled jobs in a queue of its own
    await asyncio.gather(*[enqueue(site.pool, site.match(f"m-{n}")) for n in range(5)], _own_job(site.pool))
    await _own_job(site.pool)
    # Then our jobs are JSON and its own are what its own workers can read
    stored = [await site.redis.get(key) for key in await site.redis.keys(job_key_prefix + "*")]
    ours = [job for job in stored if job.startswith(b"{")]
    own = [pickle.loads(job) for job in stored if not job.startswith(b"{")]
    assert len(ours) == 5 and [job["f"] for job in own] == ["send_mail", "send_mail"]


async def _own_job(pool: ArqRedis) -> None:
    await pool.enqueue_job("send_mail", datetime.now(UTC), _queue_name="own")


# Jobs that are wrong


class Trap:
    """Unpickling this touches a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


async def test_a_pickled_job_is_kept_and_never_opened(site: Site, tmp_path: Path) -> None:
    # Given jobs that a pool with arq's default serializer writes, one of them hostile
    await site.pool.enqueue_job(JOB, match(finished_at=site.now), _queue_name=QUEUE, _job_id="innocent")
    await site.pool.enqueue_job(JOB, Trap(tmp_path / "touched"), _queue_name=QUEUE, _job_id="hostile")
    stored = [await site.redis.get(job_key_prefix + job_id) for job_id in ("innocent", "hostile")]
    async with rating(site):
        # When the worker finds them
        await eventually(lambda: _dead(site, 2))
        await eventually(site.quiet)
    # Then their bytes are kept, and nothing of them was run
    assert sorted(await site.dead()) == sorted(("malformed", job) for job in stored)
    assert not (tmp_path / "touched").exists()
    # The trap itself works.
    pickle.loads(stored[1])
    assert (tmp_path / "touched").exists()


async def _dead(site: Site, count: int) -> bool:
    return len(await site.dead()) == count


def job(**changed: Any) -> dict[str, Any]:
    """A right job as arq writes it, with changes."""
    return {"t": None, "f": JOB, "a": [match()], "k": {}, "et": 1_795_953_600_000, **changed}


MALFORMED: list[Any] = [
    [],
    7,
    "job",
    {},
    {"f": JOB},
    job(f=7),
    job(a={"0": 1}),
    job(a="x"),
    job(k=[]),
    job(k=None),
    job(et="now"),
    job(et=None),
    job(et=1.5),
    job(et=True),
    job(et=10**18),
    job(et=-(10**18)),
    job(t="x"),
    job(t=10**9),
    job(t=-1),
    job(t=[1]),
]
INVALID: list[Any] = [
    job(f="drop_everything"),
    job(f=""),
    job(f="store_unreadable_job", a=["", "malformed", "x"]),
    job(a=[]),
    job(a=[match(), match()]),
    job(a=[match()], k={"payload": match()}),
    job(a=[], k={"match": match()}),
    job(k={"_defer_by": 3}),
]


async def test_wrong_jobs_are_kept_as_dead_letters_and_the_worker_goes_on(site: Site) -> None:
    # Given every kind of wrong job in the queue, between right ones
    texts = [json.dumps(wrong).encode() for wrong in (*MALFORMED, *INVALID)]
    texts += [b"", b"{", b"\xff\xfe", b"\x80\x04K\x01.", b"[" * 100_000, b"x" * 1_000_000]
    texts = [text for text in texts if text]  # arq itself takes an empty job for one that has expired
    async with rating(site):
        for number, text in enumerate(texts):
            await site.write(text, f"wrong-{number}")
            if number % 10 == 0:
                await enqueue(site.pool, site.match(f"m-{number}"))
        # When all are done
        await eventually(site.quiet)
        # Then each right one is rated
        events = await site.events()
        assert sorted(event.match_id or "" for event in events) == sorted(
            f"m-{n}" for n in range(0, len(texts), 10)
        )
        # And each wrong one is kept: its bytes, or the match in it, if only arq's own fields were wrong
        dead = [message for _, message in await site.dead()]
        matches = [message for message in dead if message.startswith(b'{"match_id"')]
        assert len(dead) == len(texts)
        assert set(dead) - set(matches) <= set(texts)
        # And a worker that comes later finds none of them again
        await enqueue(site.pool, site.match("the-last"))
        await eventually(lambda: _count(site, len(events) + 1))


async def test_payloads_that_cannot_be_passed_on_are_kept(site: Site) -> None:
    # Given jobs that name no ladder, none that is rated, or are no messages at all
    wrong: list[tuple[Any, str]] = [
        ({**match(), "ladder": "chess"}, "wrong-ladder"),
        ({**match(), "ladder": "No Slug!"}, "invalid"),
        ({**match(), "ladder": "a}b:{backgammon"}, "invalid"),
        ({**match(), "ladder": ["backgammon"]}, "invalid"),
        ({**match(), "ladder": None}, "invalid"),
        ({"match_id": "m"}, "invalid"),
        ([1, 2], "invalid"),
        (None, "invalid"),
        (7, "invalid"),
        ("no JSON", "malformed"),
        ("", "malformed"),
        ('{"ladder": "backgammon"', "malformed"),
        ("[" * 10_000, "malformed"),
    ]
    async with rating(site):
        for number, (payload, _) in enumerate(wrong):
            await site.write(encode_job(job(a=[payload])), f"wrong-{number}")
        await eventually(lambda: _dead(site, len(wrong)))
        await eventually(site.quiet)
    # Then each is a dead letter with its bytes, and no other stream was made
    found = sorted((reason, message) for reason, message in await site.dead())
    expected = sorted(
        (
            reason,
            payload.encode()
            if isinstance(payload, str)
            else json.dumps(payload, separators=(",", ":")).encode(),
        )
        for payload, reason in wrong
    )
    assert found == expected
    streams = [key async for key in site.redis.scan_iter(match="*match-finished")]
    assert streams in ([], [b"ratings:{backgammon}:match-finished"])


async def test_a_message_that_is_wrong_goes_the_way_of_the_stream(site: Site) -> None:
    # Given right jobs with messages that cannot be rated
    async with rating(site):
        for number, message in enumerate(
            [
                match(finished_at=site.now, cube=3),
                {"ladder": "backgammon"},
                match(finished_at=site.now, note="x" * 20_000),
            ]
        ):
            await site.write(encode_job(job(a=[message])), f"job-{number}")
        await eventually(lambda: _dead(site, 3))
    assert sorted(reason for reason, _ in await site.dead()) == ["invalid", "invalid", "malformed"]


async def test_a_job_for_a_ladder_that_others_rate_is_passed_on(site: Site) -> None:
    # Given an inbox that another worker has made
    await site.redis.xgroup_create("ratings:{chess}:match-finished", "raters", mkstream=True)
    async with rating(site):
        await enqueue(
            site.pool, MatchFinished.model_validate({**match(finished_at=site.now), "ladder": "chess"})
        )
        await eventually(lambda: site.redis.xlen("ratings:{chess}:match-finished"))
    assert await site.dead() == []


async def test_a_job_in_the_hands_of_a_worker_that_is_killed_is_run_again_soon(site: Site) -> None:
    # Given a job that another worker has begun: arq keeps others from it for as long as a job may take
    worker = create_worker(worker_settings(), handle_signals=False)
    await enqueue(site.pool, site.match())
    await worker.start_jobs(await site.redis.zrange(QUEUE, 0, -1))
    locks = await site.redis.keys(in_progress_key_prefix + "*")
    # Then that is not so long that the job may expire before anybody takes it up: arq's default is a day
    assert len(locks) == 1
    assert await site.redis.pttl(locks[0]) <= 10 * 60_000
    await asyncio.wait(set(worker.tasks.values()))
    await worker.close()


async def test_jobs_wait_for_a_redis_that_is_away(site: Site) -> None:
    # Given jobs; when Redis crashes while the worker works on them, and comes back
    async with rating(site):
        for number in range(200):
            await enqueue(site.pool, site.match(f"m-{number}"))
        await eventually(site.events)
        await asyncio.to_thread(site.server.restart, kill=True, down=0.5)
        # Then the worker goes on by itself, and every match is rated once
        async with Redis.from_url(site.server.url) as redis:
            site.redis = redis
            # A job that was taken up just when Redis went is put back only after arq's own limit, 65 s.
            await eventually(lambda: _count(site, 200), seconds=200)
            assert len({event.match_id for event in await site.events()}) == 200
            assert await site.dead() == []
        site.redis = Redis.from_url(site.server.url)
    await site.redis.aclose()


async def test_a_connection_lost_between_watch_and_multi_does_not_end_the_worker(site: Site) -> None:
    # Given the way in which arq takes a job up: it watches a key and looks before it writes
    pool = arq_pool(site.server.url, encode_job, decode_job)
    async with pool.pipeline(transaction=True) as pipe:
        await pipe.watch("lock")
        # When the connection breaks just then
        await site.redis.client_kill_filter(_type="normal", skipme=True)
        # Then it goes on on a new one: arq's worker would end with an error here
        assert await pipe.exists("lock") == 0
        pipe.multi()
        pipe.set("lock", "ours")
        await pipe.execute()
        # And it still watches: what changes meanwhile is noticed
        await pipe.watch("lock")
        await site.redis.client_kill_filter(_type="normal", skipme=True)
        assert await pipe.get("lock") == b"ours"
        await site.redis.set("lock", "theirs")
        pipe.multi()
        pipe.set("lock", "ours again")
        with pytest.raises(WatchError):
            await pipe.execute()
    await pool.aclose(close_connection_pool=True)


@pytest.mark.parametrize("replies", [*range(1, 10), 15])
async def test_a_connection_that_breaks_at_any_moment_does_not_end_the_worker(
    site: Site, replies: int
) -> None:
    # Given a server whose connections break after so many replies, be it while they are being opened
    async with Flaky(site.server, [replies, replies, 0, replies]) as flaky:
        pool = arq_pool(f"redis://127.0.0.1:{flaky.port}/1", encode_job, decode_job)
        # When the pool is used as arq does
        async with asyncio.timeout(20):
            for number in range(5):
                await pool.psetex(f"health-{number}", 60_000, b"x")
                assert await pool.zrangebyscore(QUEUE, 0, 1) == []
                async with pool.pipeline(transaction=True) as pipe:
                    await pipe.watch("lock")
                    assert await pipe.exists("lock") == 0
                    assert await pipe.zscore(QUEUE, "job") is None
                    pipe.multi()
                    pipe.psetex("another", 60_000, b"1")
                    with contextlib.suppress(WatchError):  # as arq does
                        await pipe.execute()
        # Then no error reaches it
        await pool.aclose(close_connection_pool=True)


async def test_arqs_main_task_can_always_be_cancelled(site: Site) -> None:
    # Given a task that asks Redis again and again, as arq's does
    pool = arq_pool(site.server.url, encode_job, decode_job)

    async def ask() -> None:
        while True:
            await pool.zcard(QUEUE)

    for number in range(200):
        asking = asyncio.create_task(ask())
        for _ in range(number % 20):
            await asyncio.sleep(0)
        # When it is cancelled at any moment, then it ends: a worker would not stop otherwise
        asking.cancel()
        done, _ = await asyncio.wait({asking}, timeout=5)
        assert done, f"it goes on after being cancelled the {number + 1}th time"
    await pool.aclose(close_connection_pool=True)


async def test_a_worker_that_is_stopped_while_it_takes_up_jobs_finishes_its_own_work(site: Site) -> None:
    # Given a worker that has just begun some jobs
    settings = worker_settings()
    options: Any = get_kwargs(settings)
    worker = GracefulWorker(**{**options, "handle_signals": False})
    for number in range(3):
        await enqueue(site.pool, site.match(f"m-{number}"))
    await settings.ctx["worker"].start()
    await worker.start_jobs(await site.redis.zrange(QUEUE, 0, -1))
    # When it is stopped at that moment: arq cancels its jobs
    worker.handle_sig(signal.SIGTERM)
    await worker.close()
    # Then it has left in good order all the same, and the jobs are still there
    consumers = await site.redis.xinfo_consumers(KEYS + "match-finished", "raters")
    assert {consumer["name"] for consumer in consumers} <= {HANDOVER_CONSUMER.encode()}
    async with rating(site):
        await eventually(lambda: _count(site, 3))


# decode_job, as a pure function


def runnable(decoded: dict[str, Any]) -> None:
    """Fails unless arq can run what was decoded without an error of its own."""
    found: tuple[Any, ...] = deserialize_job_raw(b"", deserializer=lambda _: decoded)
    name, args, kwargs, job_try, enqueued = found
    known = {JOB: match_finished, "store_unreadable_job": store_unreadable_job}
    assert job_try is None or (type(job_try) is int and 0 <= job_try <= 100)
    assert type(enqueued) is int
    ms_to_datetime(enqueued)
    assert type(args) is list and type(kwargs) is dict and all(type(key) is str for key in kwargs)
    if name in known:
        assert (len(args), sorted(kwargs)) in ([(1, []), (0, ["payload"])] if name == JOB else [(3, [])])
        if name != JOB:
            Reason(args[1])
    json.dumps(encode_job(decoded).decode())


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ALMOST: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "t": ANY_JSON,
        "f": st.sampled_from([JOB, "store_unreadable_job", "cron:trim_ledgers", "other"]) | ANY_JSON,
        "a": st.just([{}]) | st.lists(ANY_JSON, max_size=3) | ANY_JSON,
        "k": st.just({}) | st.fixed_dictionaries({"payload": ANY_JSON}) | ANY_JSON,
        "et": st.integers() | ANY_JSON,
    },
)


@given(st.binary() | st.one_of(ANY_JSON, ALMOST).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_become_a_job_that_arq_can_run(text: bytes) -> None:
    decoded = decode_job(text)
    runnable(decoded)
    if decoded["f"] == "store_unreadable_job":
        kept = base64.b64decode(decoded["a"][0])
        assert kept == text
        assert str(decoded["a"][2]).isprintable()


@given(
    st.recursive(
        st.integers(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    )
)
def test_nothing_pickled_is_ever_opened(value: Any) -> None:
    text = serialize_job(JOB, (value,), {}, None, 1_795_953_600_000)
    decoded = decode_job(text)
    assert decoded["f"] == "store_unreadable_job" and decoded["a"][1] == "malformed"
    assert "pickled" in decoded["a"][2]


@given(ANY_JSON)
def test_a_right_job_is_decoded_as_it_was_encoded(payload: Any) -> None:
    written = job(a=[payload])
    assert json.loads(json.dumps(decode_job(encode_job(written)))) == json.loads(encode_job(written))


def test_a_decoded_match_is_the_very_message() -> None:
    assert decode_job(encode_job(job()))["a"] == [json.loads(raw(match()))]
