"""Taking matches back by arq jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from arq import Retry
from arq.connections import ArqRedis, RedisSettings, create_pool
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from embedded import Endpoint, Server
from match_ratings import QUEUE
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.jobs.json_job_serializer import decode_job
from match_ratings_worker.jobs.void_jobs import VOID_JOBS
from match_ratings_worker.ladders_file import Ladder
from match_ratings_worker.rating import Backgammon, GlickoPeriods, RatingSystem
from match_ratings_worker.runtime.worker_context import WorkerContext
from tests.support.bench import HORIZON, Bench, working
from tests.support.clock import DAY
from tests.support.model import match
from tests.support.processes import Worker, config_file
from tests.support.waiting import PATIENCE, eventually

#: arq closes its connections in redis-py's old way.
pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning"),
]


class Office:
    """Jobs of a worker that has a ladder, and another one."""

    def __init__(self, url: str, bench: Bench, system: RatingSystem, *, shadow: bool = False) -> None:
        settings = Settings(redis_url=url, horizon_days=HORIZON / DAY, shadow=shadow)
        ladders = {name: Ladder(name=name, system=system) for name in (bench.ladder, "other")}
        self.desk = WorkerContext(settings, ladders)
        self.ladder = bench.ladder

    async def __call__(self, name: str, **request: Any) -> dict[str, Any]:
        whole = {"ladder": self.ladder, "why": "a bot", "by": "eve", "timeout": 5, **request}
        answer: dict[str, Any] = await VOID_JOBS[name]({"worker": self.desk, "job_id": "a-job"}, whole)
        assert json.loads(json.dumps(answer)) == answer
        return answer


async def test_a_match_is_taken_back_by_a_job(server: Endpoint, bench: Bench) -> None:
    office = Office(server.url, bench, bench.system)
    await bench.rate(match("m-1"), match("m-2"))
    with working(server.url, bench.ladder, bench.system):
        answer = await office("void_match", match_id="m-1")
        # Run again, as when its worker was killed, it finds that it is done
        again = await office("void_match", match_id="m-1")
    assert (answer["ok"], answer["outcome"], answer["why"]) == (True, "voided", "a bot (eve)")
    assert [part["change"] for part in answer["players"]] == [-16, 16]
    assert (again["ok"], again["outcome"]) == (True, "already-voided")
    assert (await office("void_match", match_id="m-0"))["outcome"] == "unknown"
    assert (await office("void_match", match_id="m-2", timeout=0))["outcome"] == "waiting"
    await office.desk.redis.aclose()


async def test_a_players_matches_are_taken_back_by_a_job(server: Endpoint, ladder: str, redis: Redis) -> None:
    system = GlickoPeriods(period_days=1)
    bench = Bench(redis, ladder, system)
    office = Office(server.url, bench, system)
    await bench.rate(
        match("m-1", finished_at=bench.now - 5 * DAY), match("m-2"), match("m-3", ("cyd", "ada"))
    )
    since = bench.now - 9 * DAY
    planned = await office("void_player", player="ada", since=since, dry_run=True)
    assert (planned["outcomes"], planned["dry_run"]) == ({"rated": 2, "refused": 1}, True)
    with working(server.url, ladder, system):
        answer = await office("void_player", player="ada", since=since)
    assert (answer["ok"], answer["outcomes"]) == (True, {"voided": 2, "refused": 1})
    assert [item["match_id"] for item in answer["matches"]] == ["m-3", "m-2", "m-1"]
    assert {item["player"]: item["matches"] for item in answer["opponents"]} == {"bob": 1, "cyd": 1}
    assert not (await bench.audit()).total
    await office.desk.redis.aclose()


@pytest.mark.parametrize(
    ("name", "request_", "words"),
    [
        ("void_match", {}, "match_id: it is required"),
        ("void_match", {"match_id": ""}, 'match_id: "" is not allowed: 1-128 characters without control'),
        (
            "void_match",
            {"match_id": "m-1", "why": " "},
            'why: " " is not allowed: string should have at least 1 character',
        ),
        ("void_match", {"match_id": "m-1", "force": True}, "force: there is no field of this name"),
        ("void_match", {"match_id": "m-1", "timeout": 51}, "timeout: 51 is not allowed: input "),
        ("void_match", {"match_id": "m-1", "ladder": None}, "ladder: it is required with several ladders"),
        ("void_match", {"match_id": "m-1", "ladder": "go"}, 'ladder: "go" is not configured; use one of '),
        (
            "void_player",
            {"player": "ada", "since": 5},
            "since: 5 is not allowed: looks like seconds; use milliseconds",
        ),
        ("void_player", {"player": "ava", "since": "2026-01-01T00:00:00Z"}, 'player: "ava" is not known'),
    ],
)
async def test_what_is_wrong_with_a_request_is_in_the_answer(
    server: Endpoint, bench: Bench, name: str, request_: dict[str, Any], words: str
) -> None:
    office = Office(server.url, bench, Backgammon())
    answer = await office(name, **request_)
    assert answer["ok"] is False
    assert answer["error"].startswith(words)
    await office.desk.redis.aclose()


async def test_a_shadow_takes_nothing_back(server: Endpoint, bench: Bench) -> None:
    office = Office(server.url, bench, Backgammon(), shadow=True)
    assert (await office("void_match", match_id="m-1"))["error"].startswith("RATINGS_SHADOW: ")
    await office.desk.redis.aclose()


async def test_a_void_is_tried_again_when_redis_does_not_answer(
    server: Endpoint, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*arguments: Any, **options: Any) -> Any:
        raise ConnectionError("gone")

    office = Office(server.url, bench, Backgammon())
    monkeypatch.setattr(office.desk.redis, "execute_command", refuse)
    with pytest.raises(Retry):
        await office("void_match", match_id="m-1")
    await office.desk.redis.aclose()


@pytest.mark.parametrize("name", VOID_JOBS)
def test_a_job_by_position_or_by_name_is_let_through(name: str) -> None:
    request = {"match_id": "m-1", "why": "x", "by": "y"}
    for job in ({"a": [request], "k": {}}, {"a": [], "k": request}):
        read = decode_job(json.dumps({"f": name, "et": 1, "t": None, **job}).encode())
        assert (read["f"], read["a"], read["k"]) == (name, [request], {})


@pytest.mark.slow
async def test_a_server_enqueues_it(own_server: Server, tmp_path: Path) -> None:
    config = config_file(tmp_path / "ladders.toml", "backgammon")
    pool: ArqRedis = await create_pool(RedisSettings(port=own_server.port), default_queue_name=QUEUE)
    pool.job_serializer = lambda job: json.dumps(job).encode()
    pool.job_deserializer = json.loads
    async with Redis.from_url(own_server.url) as redis:
        bench = Bench(redis, "backgammon")
        await bench.send(match("m-1"))
        with Worker.running(own_server.url, config, tmp_path / "worker.log"):
            await eventually(lambda: redis.xlen(bench.keys.outbox))
            job = await pool.enqueue_job("void_match", {"match_id": "m-1", "why": "a bot", "by": "eve"})
            assert job is not None
            answer = await job.result(timeout=PATIENCE)
        assert answer["outcome"] == "voided", answer
    await pool.aclose()
