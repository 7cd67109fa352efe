"""The settings class of the arq worker: its jobs, its queue, and the rating that runs beside them."""

from __future__ import annotations

import gc
import math
import sys
from typing import Any

import arq.worker
from arq import cron
from arq.worker import func

from match_ratings import JOB, QUEUE
from match_ratings.stream_names import PREVIEW
from match_ratings_worker.environment_variables import load_settings
from match_ratings_worker.ladders_file import ConfigError, load_ladders
from match_ratings_worker.ledger import ArchiveError
from match_ratings_worker.runtime import (
    GracefulWorker,
    WorkerContext,
    arq_pool,
    configure_logging,
    retry_while_unavailable,
)
from match_ratings_worker.storage import UnsupportedServer

from .cron_jobs import close_periods, trim_ledgers
from .dead_letter_jobs import DEAD_LETTER_JOBS
from .job_requests import KEEP_ANSWER_SECONDS
from .json_job_serializer import UNREADABLE_JOB, decode_job, encode_job
from .match_finished_job import match_finished, store_unreadable_job
from .preview_job import preview_job
from .void_jobs import VOID_JOBS

#: Seconds that a job may take.
_JOB_SECONDS = 55.0
#: Tries of a cancelled job: a match may not be lost, however many workers come and go.
_TRIES = 100_000
#: Seconds that the answer to a preview is kept.
_KEEP_PREVIEW = 60


async def _startup(ctx: dict[str, Any]) -> None:
    context: WorkerContext = ctx["worker"]
    try:
        await retry_while_unavailable(context.start, seconds=math.inf)
    except UnsupportedServer as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(3) from None


async def _shutdown(ctx: dict[str, Any]) -> None:
    context: WorkerContext = ctx["worker"]
    await context.stop()


def worker_settings() -> type[Any]:
    """arq's settings class for this environment.

    A wrong setting ends the process with one sentence and code 2, by SystemExit.
    """
    try:
        settings = load_settings()
        ladders = load_ladders(settings.config)
        context = WorkerContext(settings, ladders)
    except (ConfigError, ArchiveError, ValueError) as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(2) from None
    configure_logging(settings.log_level, settings.log_format)
    # The arq command makes a worker of the class with this name, and offers no other way to choose it.
    arq.worker.Worker = GracefulWorker  # type: ignore[misc]
    # A batch makes many short-lived objects and no cycles; collecting cycles less often saves a tenth of
    # the worker's time.
    gc.set_threshold(20_000, 20, 50)

    class WorkerSettings:
        """Run by `arq match_ratings_worker.settings.WorkerSettings`."""

        queue_name = QUEUE
        functions = [
            func(match_finished, name=JOB, max_tries=_TRIES, keep_result=0),
            func(store_unreadable_job, name=UNREADABLE_JOB, max_tries=_TRIES, keep_result=0),
            *(
                func(act, name=name, max_tries=_TRIES, keep_result=KEEP_ANSWER_SECONDS)
                for name, act in {**DEAD_LETTER_JOBS, **VOID_JOBS}.items()
            ),
            func(preview_job, name=PREVIEW, max_tries=3, timeout=10, keep_result=_KEEP_PREVIEW),
        ]
        cron_jobs = [
            cron(trim_ledgers, second=17, timeout=50, keep_result=0),
            cron(close_periods, second=37, timeout=55, keep_result=0),
        ]
        redis_pool = arq_pool(settings.queue_url, encode_job, decode_job)
        job_serializer = staticmethod(encode_job)
        job_deserializer = staticmethod(decode_job)
        on_startup = staticmethod(_startup)
        on_shutdown = staticmethod(_shutdown)
        ctx = {"worker": context}
        max_jobs = 100
        poll_delay = 0.25
        keep_result = 0
        log_results = False
        # The other workers get the jobs of one that was killed after this time and 10 s more.
        job_timeout = _JOB_SECONDS

    return WorkerSettings
