"""Plain arq, to compare with: an empty job, and a match rated in one job; and how its queue is filled.

arq benchmarks.arq_app.Empty              as a user would start it
python -m benchmarks.arq_app EmptyTuned   the same on uvloop, which arq does not use by itself
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import uvloop
from arq.connections import RedisSettings
from arq.constants import default_queue_name, job_key_prefix
from arq.jobs import serialize_job
from arq.worker import create_worker, func

from benchmarks.wire import pack
from match_ratings import MatchFinished
from match_ratings.stream_names import leaderboard, outbox
from match_ratings_worker.rating import Backgammon, Game, State
from match_ratings_worker.storage.redis_keys import Keys
from peers.finish import Finish

__all__ = ["QUIET", "Empty", "EmptyTuned", "RateTuned", "queued"]

_URL = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")
_finish = Finish(_URL)
_system = Backgammon()
#: For --custom-log-dict: two lines for each job cost arq a tenth of its speed.
QUIET = {"version": 1}
_WEEK_MS = 7 * 86_400_000


async def empty(ctx: dict[str, Any], total: int) -> None:
    """Does nothing, except that the first and the last of `total` leave word."""
    _finish.one_of(total)


async def rate_match(ctx: dict[str, Any], total: int, raw: str) -> None:
    """Rates one match: reads both players, and writes in one MULTI.

    What most would write. Of our guarantees it has only "all or nothing": two jobs of one player that
    overlap lose a change, a job that runs twice counts twice, and the order is nobody's.
    """
    match = MatchFinished.model_validate_json(raw)
    redis, keys, ended = ctx["redis"], Keys(match.ladder), match.finished_at
    async with redis.pipeline(transaction=False) as pipe:
        for name in match.players:
            pipe.hmget(keys.player(name), "rating", "games")
            pipe.zcount(keys.games(name), ended - _WEEK_MS, f"({ended}")
        one, recent, other, other_recent = await pipe.execute()
    states = [State(int(stored[0] or 1500), int(stored[1] or 0)) for stored in (one, other)]
    scores = (1.0, 0.0) if match.winner == match.players[0] else (0.0, 1.0)
    outcome = _system.rate(states[0], states[1], Game(ended, scores, (recent, other_recent), match.cube))
    players = []
    async with redis.pipeline(transaction=True) as pipe:
        for name, state, side in zip(match.players, states, outcome.sides, strict=True):
            fields = {"rating": side.rating, "games": state.games + 1, "last_game": ended}
            pipe.hset(keys.player(name), mapping=fields)
            pipe.zadd(keys.games(name), {match.match_id: ended})
            pipe.zadd(leaderboard(match.ladder), {name: side.rating})
            players.append({"player": name, "before": state.rating, "after": side.rating})
        event = {"match_id": match.match_id, "rated_at": int(time.time() * 1000), "players": players}
        pipe.xadd(outbox(match.ladder), {"message": orjson.dumps(event)})
        await pipe.execute()
    _finish.one_of(total)


class Empty:
    """arq's defaults."""

    functions = [empty]
    redis_settings = RedisSettings.from_dsn(_URL)


class EmptyTuned:
    """Everything set in arq's favour; more jobs at once, or reading more of them, changes nothing."""

    functions = [empty]
    redis_settings = RedisSettings.from_dsn(_URL)
    poll_delay = 0
    max_jobs = 100
    keep_result = 0
    log_results = False


class RateTuned:
    """The same with the job that rates."""

    functions = [func(rate_match, name="rate_match")]
    redis_settings = RedisSettings.from_dsn(_URL)
    poll_delay = 0
    max_jobs = 100
    keep_result = 0
    log_results = False


def queued(function: str, arguments: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    """Packed commands that queue jobs: what `enqueue_job` sends, without its check for a job of this id."""
    now_ms = int(time.time() * 1000)
    for number, args in enumerate(arguments):
        job_id = f"{number:032x}"
        job = serialize_job(function, args, {}, None, now_ms)
        yield pack("PSETEX", job_key_prefix + job_id, 86_400_000, job)
        yield pack("ZADD", default_queue_name, now_ms, job_id)


if __name__ == "__main__":
    asyncio.set_event_loop(uvloop.new_event_loop())
    create_worker(globals()[sys.argv[1]]).run()
