"""The arq side: the second door for matches, housekeeping, and the worker that runs the intakes."""

from __future__ import annotations

import asyncio
import base64
import gc
import math
import signal
import sys
from typing import Any

import arq.worker
import orjson
import structlog
from arq import cron
from arq.constants import in_progress_key_prefix
from arq.worker import Worker, func

from match_ratings import JOB, QUEUE, Reason
from match_ratings.stream_names import FIELD, PREVIEW, scope
from match_ratings_worker.calculators.preview_from_ladder import preview_job
from match_ratings_worker.environment import load_settings
from match_ratings_worker.jobs.dead_letter_jobs import KEEP_SECONDS, LETTER_JOBS
from match_ratings_worker.jobs.void_jobs import VOID_JOBS
from match_ratings_worker.ladders_file import ConfigError, load_ladders
from match_ratings_worker.ledger.sqlite_archive import ArchiveError
from match_ratings_worker.pipeline.close_due_periods import close_and_log
from match_ratings_worker.runtime import log_setup as logs
from match_ratings_worker.runtime.worker_context import WorkerContext, retry_while_unavailable
from match_ratings_worker.storage.connection import UnsupportedServer, arq_pool
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.text import quote
from match_ratings_worker.units import now_ms

__all__ = ["GracefulWorker", "decode_job", "encode_job", "worker_settings"]

log = structlog.get_logger(__name__)

#: The job that an unreadable job is turned into; a server cannot ask for it by name.
_UNREADABLE = "store_unreadable_job"
#: Seconds that a job may take.
_JOB_SECONDS = 55.0
#: arq tries a cancelled job again as often as this: workers may come and go, a match may not be lost.
_TRIES = 100_000
#: How long the answer to a preview is kept, in seconds.
_KEEP_PREVIEW = 60


class GracefulWorker(Worker):
    """arq's worker, which ends in good order also when it is stopped in the moment it takes up jobs."""

    async def close(self) -> None:
        """Waits for the jobs that were cancelled, then does what arq does; arq lets the first one end it."""
        if not self._handle_signals:
            self.handle_sig(signal.SIGUSR1)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        # A job that was cancelled before it had begun is not put back by arq: others may have it at once.
        unbegun = [in_progress_key_prefix + name for name, task in self.tasks.items() if task.cancelled()]
        self.tasks.clear()
        if unbegun:
            await self.pool.delete(*unbegun)
        await super().close()


async def match_finished(ctx: dict[str, Any], payload: Any) -> None:
    """Appends a match or tournament (an object, or its JSON text) to its ladder's inbox."""
    desk: WorkerContext = ctx["desk"]
    raw = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else orjson.dumps(payload)
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        detail = f"message: not JSON: {error}"
        await retry_while_unavailable(lambda: desk.add_dead_letter(raw, Reason.MALFORMED, detail))
        return
    ladder = data.get("ladder") if isinstance(data, dict) else None
    try:
        scope(ladder if isinstance(ladder, str) else "")
    except ValueError:
        detail = f"ladder: {quote(ladder)} is not allowed; the job's payload must name its ladder"
        await retry_while_unavailable(lambda: desk.add_dead_letter(raw, Reason.INVALID, detail))
        return
    inbox = Keys(str(ladder)).inbox
    if ladder not in desk.ladders and not await retry_while_unavailable(lambda: desk.redis.exists(inbox)):
        detail = f"ladder: {quote(ladder)} is rated by no worker; known here are {', '.join(desk.ladders)}"
        await retry_while_unavailable(lambda: desk.add_dead_letter(raw, Reason.WRONG_LADDER, detail))
        return
    await retry_while_unavailable(lambda: desk.redis.xadd(inbox, {FIELD: raw}))


async def store_unreadable_job(ctx: dict[str, Any], raw: str, reason: str, detail: str) -> None:
    """Keeps a job that could not be read; `raw` is its bytes in base 64."""
    desk: WorkerContext = ctx["desk"]
    await retry_while_unavailable(lambda: desk.add_dead_letter(base64.b64decode(raw), Reason(reason), detail))


async def housekeeping(ctx: dict[str, Any]) -> None:
    """Once a minute: trims each ledger by age, unless it is archived first by a worker that has the file."""
    desk: WorkerContext = ctx["desk"]
    if desk.archiver.archive is None:
        for ladder in desk.ladders:
            await desk.archiver.run_and_log(ladder, desk.keys(ladder))


async def close_periods(ctx: dict[str, Any]) -> None:
    """Once a minute: closes the rating periods that are over, by the adopted settings of each ladder."""
    desk: WorkerContext = ctx["desk"]
    for ladder in desk.ladders.values():
        await close_and_log(
            desk.redis,
            ladder.name,
            ladder.system,
            horizon=desk.settings.horizon_ms,
            keys=desk.keys(ladder.name),
        )


def encode_job(job: dict[str, Any]) -> bytes:
    """A job or a result as JSON; what JSON cannot say is written as text."""
    return orjson.dumps(job, default=str)


def decode_job(raw: bytes) -> dict[str, Any]:
    """A job from its JSON. One that cannot be run is turned into a job that keeps it as a dead letter:
    it is neither dropped nor, when it is pickled, ever unpickled.
    """
    try:
        job = orjson.loads(raw)
    except orjson.JSONDecodeError:
        pickled = raw[:1] == b"\x80"
        text = (
            "job: it is pickled; give the arq pool JSON as its serializer"
            if pickled
            else "job: it is not JSON"
        )
        return _unreadable(raw, Reason.MALFORMED, text)
    if not isinstance(job, dict) or not {"f", "a", "k", "et"} <= job.keys():
        return _unreadable(raw, Reason.MALFORMED, "job: it is not one of arq's jobs")
    if not (isinstance(job["f"], str) and isinstance(job["a"], list) and isinstance(job["k"], dict)):
        return _unreadable(raw, Reason.MALFORMED, "job: it is not one of arq's jobs")
    if type(job["et"]) is not int or not 0 <= job["et"] < 100_000_000_000_000:
        return _unreadable(raw, Reason.MALFORMED, "job: its time is not a number")
    job["t"] = None  # how often it was tried is known to Redis; a number from elsewhere could end it
    if job["f"] == JOB:
        if len(job["a"]) == 1 and not job["k"]:
            return job
        if not job["a"] and job["k"].keys() == {"payload"}:
            return job
        text = f"job: {JOB} takes one argument, the match; it was given {len(job['a']) + len(job['k'])}"
        return _unreadable(raw, Reason.INVALID, text)
    if job["f"] == PREVIEW:  # nothing is lost with one that asks wrongly: the answer says so
        return {**job, "a": [job["a"][0] if job["a"] else job["k"].get("payload")], "k": {}}
    if job["f"] in LETTER_JOBS or job["f"] in VOID_JOBS:  # the same
        return {**job, "a": [job["a"][0] if job["a"] else job["k"]], "k": {}}
    if job["f"] in ("cron:housekeeping", "cron:close_periods"):
        return {**job, "a": [], "k": {}}
    return _unreadable(raw, Reason.INVALID, f"job: {quote(job['f'])} is not known; use {JOB}")


def _unreadable(raw: bytes, reason: Reason, detail: str) -> dict[str, Any]:
    return {
        "t": None,
        "f": _UNREADABLE,
        "a": [base64.b64encode(raw).decode(), reason.value, detail],
        "k": {},
        "et": now_ms(),
    }


async def _startup(ctx: dict[str, Any]) -> None:
    desk: WorkerContext = ctx["desk"]
    try:
        await retry_while_unavailable(desk.start, seconds=math.inf)
    except UnsupportedServer as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(3) from None


async def _shutdown(ctx: dict[str, Any]) -> None:
    await ctx["desk"].stop()


def worker_settings() -> type[Any]:
    """arq's settings class for this environment; exits with code 2 and one sentence on a wrong one."""
    try:
        settings = load_settings()
        ladders = load_ladders(settings.config)
        desk = WorkerContext(settings, ladders)
    except (ConfigError, ArchiveError, ValueError) as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(2) from None
    logs.configure(settings.log_level, settings.log_format)
    # The arq command makes its worker by this name, with no place to say which class.
    arq.worker.Worker = GracefulWorker  # type: ignore[misc]
    # A batch makes many short-lived objects and no cycles: looking for those less often is a tenth of
    # the worker's time saved.
    gc.set_threshold(20_000, 20, 50)

    class WorkerSettings:
        """What `arq match_ratings_worker.settings.WorkerSettings` runs."""

        queue_name = QUEUE
        functions = [
            func(match_finished, name=JOB, max_tries=_TRIES, keep_result=0),
            func(store_unreadable_job, name=_UNREADABLE, max_tries=_TRIES, keep_result=0),
            *(
                func(act, name=name, max_tries=_TRIES, keep_result=KEEP_SECONDS)
                for name, act in {**LETTER_JOBS, **VOID_JOBS}.items()
            ),
            func(preview_job, name=PREVIEW, max_tries=3, timeout=10, keep_result=_KEEP_PREVIEW),
        ]
        cron_jobs = [
            cron(housekeeping, second=17, timeout=50, keep_result=0),
            cron(close_periods, second=37, timeout=55, keep_result=0),
        ]
        redis_pool = arq_pool(settings.queue_url, encode_job, decode_job)
        job_serializer = staticmethod(encode_job)
        job_deserializer = staticmethod(decode_job)
        on_startup = staticmethod(_startup)
        on_shutdown = staticmethod(_shutdown)
        ctx = {"desk": desk}
        max_jobs = 100
        poll_delay = 0.25
        keep_result = 0
        log_results = False
        # arq keeps a killed worker's jobs from the others for as long as this and 10 s more.
        job_timeout = _JOB_SECONDS

    return WorkerSettings
