"""The arq job `preview`: what a match server asks before a match starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from arq.connections import ArqRedis

import match_ratings
from embedded import Server
from match_ratings.stream_names import PREVIEW, QUEUE
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.jobs.json_job_serializer import decode_job, encode_job
from match_ratings_worker.jobs.preview_job import preview_job
from match_ratings_worker.ladders_file import Ladder
from match_ratings_worker.rating import Backgammon, Glicko2
from match_ratings_worker.runtime.worker_context import WorkerContext
from tests.support.processes import Worker, config_file


def test_a_job_that_asks_wrongly_is_answered_and_not_kept() -> None:
    job: dict[str, Any] = {"t": None, "f": PREVIEW, "a": [], "k": {"payload": {"x": 1}}, "et": 0}
    assert decode_job(encode_job(job))["a"] == [{"x": 1}]
    assert decode_job(encode_job({**job, "k": {}}))["a"] == [None]
    assert decode_job(encode_job({**job, "a": [1, 2]}))["a"] == [1]


@pytest.fixture
async def context(server: Any, ladder: str, settings: None) -> AsyncIterator[WorkerContext]:
    found = WorkerContext(Settings(redis_url=server.url), {ladder: Ladder(name=ladder, system=Backgammon())})
    yield found
    await found.redis.aclose()


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RATINGS_REDIS_URL", "RATINGS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (None, "request: null is not a JSON object"),
        ([1], "request: [1] is not a JSON object"),
        ({}, "ladder: it is required"),
        ({"ladder": "x"}, "players: it is required"),
        ({"ladder": "X!", "players": ["a", "b"]}, 'ladder: "X!" is not allowed: '),
        ({"ladder": "nosuch", "players": ["a", "b"]}, 'ladder: "nosuch" is not configured; use one of '),
        ({"ladder": "LADDER", "players": ["a", "a"]}, "players: a match has two different players"),
        ({"ladder": "LADDER", "players": ["a"]}, "players.1: it is required"),
        (
            {"ladder": "LADDER", "players": ["a", "b"], "cubes": [3]},
            "cubes.0: 3 is not allowed: must be one of 1, 2, 4",
        ),
        (
            {"ladder": "LADDER", "players": ["a", "b"], "finished_at": 5},
            "finished_at: 5 is not allowed: looks like seconds",
        ),
        ({"ladder": "LADDER", "players": ["a", "b"], "cube": 2}, "cube: there is no field of this name"),
        ("{", "request: "),
    ],
)
async def test_wrong_requests_get_a_sentence(
    context: WorkerContext, ladder: str, payload: Any, words: str
) -> None:
    if isinstance(payload, dict) and payload.get("ladder") == "LADDER":
        payload = {**payload, "ladder": ladder}
    answer = await preview_job({"worker": context, "job_id": "a-job"}, payload)
    assert answer["ok"] is False and answer["error"].startswith(words), answer


async def test_the_answer_is_by_the_adopted_settings(context: WorkerContext, ladder: str) -> None:
    from match_ratings_worker.ladder_settings.adopt_settings import adopt
    from match_ratings_worker.storage.pipelined_connection import ClientExecutor

    answer = await preview_job(
        {"worker": context, "job_id": "a-job"}, {"ladder": ladder, "players": ["ada", "bob"], "cubes": [1]}
    )
    assert (answer["system"], answer["new"]) == ("backgammon", ["ada", "bob"])
    assert [row["first"]["change"] for row in answer["outcomes"]] == [16, -16]
    keys = context.keys(ladder)
    await adopt(ClientExecutor(context.redis), keys, Glicko2(), expected_digest="", who="x", why="x")
    answer = await preview_job(
        {"worker": context, "job_id": "a-job"}, f'{{"ladder": "{ladder}", "players": ["ada", "bob"]}}'
    )
    assert answer["system"] == "glicko2"
    assert {row["result"] for row in answer["outcomes"]} == {"win", "draw", "loss"}


async def test_a_match_server_asks_a_worker(tmp_path: Path) -> None:
    with Server() as server:
        config = config_file(tmp_path / "x.toml", "club", system="fibs")
        with Worker.running(server.url, config, tmp_path / "log"):
            async with ArqRedis.from_url(server.url) as pool:
                answer = await match_ratings.preview(pool, "club", ("ada", "bob"), lengths=[9])
                assert (answer["system"], answer["players"]) == ("fibs", ["ada", "bob"])
                win, loss = answer["outcomes"]
                assert win["first"]["change"] == pytest.approx(29.46) == -loss["first"]["change"]
                with pytest.raises(ValueError, match='ladder: "other" is not configured'):
                    await match_ratings.preview(pool, "other", ("ada", "bob"))
                assert await pool.keys("arq:result:*")  # kept for a while
                assert 0 < await pool.pttl((await pool.keys("arq:result:*"))[0]) <= 60_000
        async with ArqRedis.from_url(server.url) as pool:
            with pytest.raises(TimeoutError):
                await match_ratings.preview(pool, "club", ("ada", "bob"), timeout=0.3)
            jobs = await pool.zrange(QUEUE, 0, -1)
            # A cron job may wait there too: the worker was killed.
            assert len([job for job in jobs if not job.startswith(b"cron:")]) <= 1
