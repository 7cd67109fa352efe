"""Plain arq, to compare with: an empty job, and a match rated in one job; and how its queue is filled.

    arq benchmarks.arq_app.Empty              as a user would start it
    python -m benchmarks.arq_app EmptyTuned   the same with the faster event loop
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any

import uvloop
from arq.connections import RedisSettings
from arq.constants import default_queue_name, job_key_prefix
from arq.jobs import serialize_job
from arq.worker import create_worker, func

from benchmarks.finish import Finish
from benchmarks.wire import pack

_URL = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")
_finish = Finish(_URL)


async def empty(ctx: dict[str, Any], total: int) -> None:
    """Does nothing, except that the first and the last of `total` leave word."""
    _finish.one_of(total)


class Empty:
    """arq's defaults."""

    functions = [empty]
    redis_settings = RedisSettings.from_dsn(_URL)


class EmptyTuned(Empty):
    """Everything in arq's favour."""

    functions = [func(empty, keep_result=0)]
    poll_delay = float(os.environ.get("PD", "0"))
    max_jobs = int(os.environ.get("MJ", "100"))
    queue_read_limit = int(os.environ.get("QR", "0")) or None
    keep_result = 0
    log_results = False

def queued(function: str, arguments: Iterator[tuple[Any, ...]], now_ms: int) -> Iterator[bytes]:
    """Packed commands that queue jobs, the same that `enqueue_job` sends."""
    for number, args in enumerate(arguments):
        job = serialize_job(function, args, {}, None, now_ms)
        job_id = f"{number:032x}"
        yield pack("PSETEX", job_key_prefix + job_id, 86_400_000, job)
        yield pack("ZADD", default_queue_name, now_ms, job_id)


if __name__ == "__main__":
    asyncio.set_event_loop(uvloop.new_event_loop())
    create_worker(globals()[sys.argv[1]]).run()
