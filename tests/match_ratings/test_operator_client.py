"""What a back office asks of the workers through a pool as `arq.create_pool` returns it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from arq.connections import ArqRedis, RedisSettings, create_pool
from redis.asyncio import Redis

import match_ratings
from embedded import Server
from tests.support.clock import now_ms
from tests.support.processes import Worker, config_file
from tests.support.waiting import eventually

#: arq closes its connections in redis-py's old way.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning"),
    pytest.mark.server,
]


@asynccontextmanager
async def default_pool(server: Server) -> AsyncIterator[ArqRedis]:
    """A pool whose serializer is pickle and whose queue is another one."""
    pool = await create_pool(RedisSettings(port=server.port))
    try:
        yield pool
    finally:
        await pool.aclose()


async def send(redis: Redis, **fields: Any) -> None:
    match = {"match_id": "m-1", "ladder": "backgammon", "players": ["ada", "bob"], "winner": "ada"}
    message = json.dumps({**match, "finished_at": now_ms(), **fields})
    await redis.xadd(match_ratings.inbox("backgammon"), {match_ratings.FIELD: message})


@pytest.mark.slow
async def test_a_back_office_voids_and_corrects_through_a_default_pool(
    own_server: Server, tmp_path: Path
) -> None:
    config = config_file(tmp_path / "ladders.toml", "backgammon")
    async with Redis.from_url(own_server.url) as redis, default_pool(own_server) as pool:
        with Worker.running(own_server.url, config, tmp_path / "worker.log"):
            # Given a rated match, and one that is not valid
            await send(redis)
            await send(redis, match_id="m-2", cube=3)

            async def settled() -> bool:
                return await redis.xlen(match_ratings.outbox("backgammon")) == 1 and bool(
                    await redis.xlen(match_ratings.dead_letters("backgammon"))
                )

            await eventually(settled)
            # When the match is voided, then it is voided once
            voided = await match_ratings.void_match(pool, "m-1", why="a bot", by="eve")
            assert (voided["outcome"], voided["why"]) == ("voided", "a bot (eve)")
            again = await match_ratings.void_match(pool, "m-1", why="a bot", by="eve")
            assert again["outcome"] == "already-voided"
            # When the dead letter is found, shown, corrected and replayed, then it is rated
            page = await match_ratings.list_dead_letters(pool, reasons=["invalid"])
            [letter] = page["dead_letters"]
            shown = await match_ratings.show_dead_letter(pool, letter["id"])
            assert shown["replay_would_give"]["outcome"] == "still-wrong"
            with pytest.raises(ValueError, match="still wrong"):
                await match_ratings.edit_dead_letter(pool, letter["id"], {"cube": 5}, why="typo", by="eve")
            edited = await match_ratings.edit_dead_letter(
                pool, letter["id"], {"cube": 2}, why="typo", by="eve"
            )
            replayed = await match_ratings.replay_dead_letters(pool, ids=[edited["new_id"]])
            assert replayed["outcomes"] == {"rated": 1} and replayed["stopped"] == ""
            # When all matches of the player are voided, then the opponent gets the points back
            found = await match_ratings.void_player(pool, "ada", (10**12, None), why="a bot", by="eve")
            assert found["outcomes"] == {"voided": 1} and found["opponents"][0]["player"] == "bob"
            # When a letter is discarded, then it can be restored once
            await send(redis, match_id="m-3", winner="x")
            await eventually(lambda: _has_dead_letter(redis))
            kept = (await match_ratings.list_dead_letters(pool))["dead_letters"]
            gone = await match_ratings.discard_dead_letters(pool, all=True, why="noise", by="eve")
            assert gone["discarded"] == 1
            back = await match_ratings.restore_dead_letters(pool, kept)
            assert (back["restored"], back["before"], back["there"]) == (1, 0, 0)
            # And what is refused is the worker's sentence
            with pytest.raises(ValueError, match="ids: say which are meant"):
                await match_ratings.replay_dead_letters(pool)
            with pytest.raises(ValueError, match='ladder: "chess" is not configured'):
                await match_ratings.void_match(pool, "m-1", why="x", by="y", ladder="chess")


async def _has_dead_letter(redis: Redis) -> bool:
    return bool(await redis.xlen(match_ratings.dead_letters("backgammon")))


async def test_without_a_worker_the_request_times_out(own_server: Server) -> None:
    async with default_pool(own_server) as pool:
        with pytest.raises(TimeoutError):
            await match_ratings.replay_dead_letters(pool, all=True, timeout=0.1)


async def test_the_job_reaches_the_workers_queue_as_json(own_server: Server) -> None:
    async with default_pool(own_server) as pool:
        with pytest.raises(TimeoutError):
            await match_ratings.list_dead_letters(pool, player="ada", timeout=0.1)
        [job_id] = await pool.zrange(match_ratings.QUEUE, 0, -1)
        job = json.loads(await pool.get(b"arq:job:" + job_id) or b"")
    assert (job["f"], job["a"]) == ("dead_letters_list", [{"player": "ada", "limit": 100}])
    assert pool.job_serializer is None
