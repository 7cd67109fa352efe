"""The same by arq jobs: requests, answers, and a replay that outlives its worker."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from arq import Retry
from arq.connections import ArqRedis, RedisSettings, create_pool
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from embedded import Server
from match_ratings import QUEUE
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.jobs import dead_letter_jobs as jobs_letters
from match_ratings_worker.jobs.dead_letter_jobs import DEAD_LETTER_JOBS
from match_ratings_worker.jobs.json_job_serializer import decode_job, encode_job
from match_ratings_worker.ladders_file import Ladder
from tests.support.office import Office
from tests.support.processes import Worker, config_file
from tests.support.waiting import PATIENCE, eventually

Ask = Callable[..., Awaitable[dict[str, Any]]]


#: Jobs that have put themselves back.
retried: list[str] = []


@pytest.fixture
def ask(office: Office, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs a job in this process."""
    monkeypatch.delenv("RATINGS_CONFIG", raising=False)
    retried.clear()
    ladders = {office.ladder: Ladder(name=office.ladder, system=office.system)}
    desk = SimpleNamespace(redis=office.redis, settings=Settings(), ladders=ladders)

    async def call(name: str, request: Any = None, *, job_id: str = "a-job", **fields: Any) -> dict[str, Any]:
        raw = encode_job({"f": f"dead_letters_{name}", "a": [], "k": fields, "et": 1, "t": None})
        job = decode_job(raw)
        arguments = job["a"] if request is None else [request]
        while True:
            try:
                answer = await DEAD_LETTER_JOBS[job["f"]]({"worker": desk, "job_id": job_id}, *arguments)
                break
            except Retry:  # as arq does
                retried.append(name)
        return dict(json.loads(encode_job(answer)))

    return call


async def test_list_pages_counts_and_export(office: Office, ask: Ask) -> None:
    await office.die(office.match("a", cube=3), b"{", office.match("b", winner="x"))
    ids = [letter.id for letter in await office.dead_letters()]
    page = await ask("list", limit=2)
    assert page["ok"] and [item["id"] for item in page["dead_letters"]] == ids[:0:-1]
    rest = await ask("list", limit=2, after=page["next"])
    assert [item["id"] for item in rest["dead_letters"]] == ids[:1] and rest["next"] is None
    assert (await ask("list", counts=True))["by_reason"] == {"invalid": 2, "malformed": 1}
    found = await ask("list", reasons=["invalid"], player="x", since=office.now - 1000)
    assert [item["id"] for item in found["dead_letters"]] == [ids[2]]
    assert (await ask("export"))["dead_letters"] == page["dead_letters"] + rest["dead_letters"]


async def test_show_edit_replay(office: Office, ask: Ask) -> None:
    [letter] = await office.die(office.match("a", cube=3))
    found = await ask("show", id=letter.id)
    assert found["troubles"][0]["where"] == "cube" and found["replay_would_give"]["outcome"] == "still-wrong"
    wrong = await ask("edit", id=letter.id, set={"cube": 5}, by="mia", why="x")
    assert not wrong["ok"] and "still wrong and was not changed: cube: 5" in wrong["error"]
    edited = await ask("edit", id=letter.id, set={"cube": 2, "winner": "bob"}, by="mia", why="x")
    assert edited["ok"] and edited["replay_would_give"]["outcome"] == "rated"
    dry = await ask("replay", ids=[edited["new_id"]], dry_run=True)
    assert dry["outcomes"] == {"rated": 1} and dry["results"][0]["outcome"] == "rated"
    async with office.worker():
        done = await ask("replay", ids=[edited["new_id"]])
    assert done["ok"] and done["outcomes"] == {"rated": 1} and done["stopped"] == "" and done["all_listed"]
    [event] = await office.events()
    assert event.cube == 2 and event.players[1].score == 1


@pytest.mark.parametrize("message", [{"message": "[]"}, {"message_base64": "W10="}])
async def test_an_edit_may_give_the_whole_message(office: Office, ask: Ask, message: dict[str, str]) -> None:
    [letter] = await office.die(b"{")
    edited = await ask("edit", id=letter.id, by="mia", why="x", force=True, **message)
    assert edited["ok"]
    [now] = await office.dead_letters()
    assert now.message == b"[]"


async def test_discard_and_import(office: Office, ask: Ask) -> None:
    await office.die(b"{", b"[")
    kept = (await ask("export"))["dead_letters"]
    assert (await ask("discard", reasons=["malformed"], by="mia", why="noise"))["discarded"] == 2
    assert await ask("import", dead_letters=kept) == {"ok": True, "restored": 2, "before": 0, "there": 0}
    assert (await ask("import", dead_letters=kept))["before"] == 2


@pytest.mark.parametrize(
    ("name", "request_", "error"),
    [
        ("replay", {}, "ids: say which are meant"),
        ("discard", {"by": "a", "why": "b"}, "ids: say which are meant"),
        ("discard", {"all": True}, "by: it is required"),
        ("replay", {"ids": ["x"]}, 'id: "x" is not allowed'),
        ("replay", {"all": True, "rate": 0}, "rate: "),
        ("replay", {"all": True, "never_rated": "x"}, "never_rated: it goes with force_late"),
        ("replay", {"al": True}, "al: there is no field of this name"),
        (
            "replay",
            {"all": True, "since": "2026-01-01"},
            'since: "2026-01-01" is not allowed: must be an RFC 3339 time',
        ),
        ("replay", {"reasons": ["x"]}, "reasons.0: "),
        ("show", {"id": "1-1"}, "id: 1-1 is no dead letter"),
        ("show", "1-1", "request: "),
        ("show", None, "id: it is required"),
        ("list", {"ladder": "there"}, 'ladder: "there" is not configured'),
        ("list", {"after": "x"}, 'id: "x" is not allowed'),
        ("edit", {"id": "1-1", "by": "a", "why": "b", "set": {"a": 1}}, "id: 1-1 is no dead letter"),
        ("import", {"dead_letters": [{}]}, "ladder: it is required"),
    ],
)
async def test_what_is_wrong_with_a_request_is_the_answer(
    ask: Ask, name: str, request_: Any, error: str
) -> None:
    answer = await ask(name, request_)
    assert answer["ok"] is False and answer["error"].startswith(error)


async def test_an_edit_says_what_it_cannot_do(office: Office, ask: Ask) -> None:
    [letter] = await office.die(b"{")
    for fields, error in (
        ({}, "set: give one of"),
        ({"set": {"a": 1}, "message": "x"}, "set: give one of"),
        ({"set": {"a": 1}}, "message: it is not JSON"),
        ({"message": "{"}, "set: nothing would be changed"),
        ({"message_base64": "*"}, "message: it cannot be decoded"),
    ):
        answer = await ask("edit", id=letter.id, by="a", why="b", **fields)
        assert answer["ok"] is False and answer["error"].startswith(error)


async def test_a_redis_that_does_not_answer_is_waited_for_by_a_replay(
    office: Office, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a connection that breaks again and again, after the command was carried out
    await office.bury(*[office.match(f"m-{n}") for n in range(200)])
    sent, lost = 0, 0
    execute: Any = office.redis.execute_command

    async def flaky(*arguments: Any, **options: Any) -> Any:
        nonlocal sent, lost
        reply = await execute(*arguments, **options)
        moving = arguments[0] == "EVALSHA" and arguments[3] == office.keys.dead_letters
        sent += moving
        if moving and sent % 2 == 0 and lost < 6:
            lost += 1
            raise ConnectionError("gone")
        return reply

    async with office.worker():
        monkeypatch.setattr(office.redis, "execute_command", flaky)
        done = await ask("replay", all=True)
    # Then each letter is replayed once, and counted once
    assert lost and retried and done["outcomes"] == {"rated": 200}
    assert len(await office.events()) == 200
    # And another job answers instead of hanging
    monkeypatch.setattr(office.redis, "execute_command", _refusing)
    assert "Redis did not answer" in (await ask("discard", all=True, by="a", why="b"))["error"]


async def test_a_long_replay_goes_in_parts(office: Office, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_letters, "_PART_SECONDS", 0.05)
    await office.bury(*[office.match(f"m-{n}") for n in range(100)])
    async with office.worker():
        done = await ask("replay", all=True, rate=400)
    assert len(retried) > 1 and done["outcomes"] == {"rated": 100} and len(await office.events()) == 100


async def _refusing(*arguments: Any, **options: Any) -> Any:
    raise ConnectionError("gone")


def test_the_jobs_are_known_to_the_worker_and_no_others() -> None:
    for name in DEAD_LETTER_JOBS:
        raw = orjson.dumps({"f": name, "a": [{"all": True}], "k": {}, "et": 1, "t": None})
        assert decode_job(raw)["f"] == name and decode_job(raw)["a"] == [{"all": True}]
    raw = orjson.dumps({"f": "dead_letters_drop", "a": [], "k": {}, "et": 1, "t": None})
    assert decode_job(raw)["f"] == "store_unreadable_job"


async def pool(server: Server) -> ArqRedis:
    return await create_pool(
        RedisSettings(port=server.port, database=0),
        job_serializer=orjson.dumps,
        job_deserializer=orjson.loads,
        default_queue_name=QUEUE,
    )


async def _has(redis: Redis, stream: str, entries: int) -> bool:
    return bool(await redis.xlen(stream) >= entries)


@pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")
async def test_a_replay_outlives_the_worker_that_runs_it(
    own_server: Server, ladder: str, tmp_path: Path
) -> None:
    # Given dead letters, and a worker that is killed in the middle of their replay
    config = config_file(tmp_path / "ladders.toml", ladder)
    quick = {"RATINGS_IDLE_SECONDS": "1"}
    async with Redis.from_url(own_server.url) as redis:
        office = Office(redis, ladder)
        ids = await office.bury(*[office.match(f"m-{n}", cube=1 + n % 3) for n in range(240)])
        arq = await pool(own_server)
        with Worker.running(own_server.url, config, tmp_path / "one.log", **quick) as worker:
            job = await arq.enqueue_job("dead_letters_replay", {"all": True, "rate": 100})
            assert job is not None
            await eventually(partial(_has, redis, office.keys.outbox, 30))
            while worker.process.poll() is None:  # arq on Python 3.11 can miss a signal
                worker.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.process.wait(3)
        done = await redis.xlen(office.keys.outbox)
        assert 30 <= done < 160
        # When another worker comes
        with Worker.running(own_server.url, config, tmp_path / "two.log", **quick):
            answer = await job.result(timeout=PATIENCE)
        await arq.aclose()
        # Then the job goes on where it was: each letter once, and none that has died since
        assert answer["outcomes"] == {"rated": 160, "still-wrong": 80}
        assert answer["dead_letters"] == len(ids) and len(await office.events()) == 160
        assert {letter.attempts for letter in await office.dead_letters()} == {4}
