"""The arq side: the second door for matches, housekeeping, and the worker that runs the intakes."""

from __future__ import annotations

import asyncio
import base64
import gc
import math
import signal
import sys
import time
from typing import Any

import arq.worker
import orjson
import structlog
from arq import cron
from arq.constants import in_progress_key_prefix
from arq.worker import Worker, func

from contracts import JOB, QUEUE, Reason
from contracts.names import FIELD, PREVIEW, scope
from worker import logs
from worker.archive import ArchiveError
from worker.closing import close_and_log
from worker.connect import UnfitServer, arq_pool
from worker.desk import Desk, patiently
from worker.jobs_letters import KEEP_SECONDS, LETTER_JOBS
from worker.jobs_voids import VOID_JOBS
from worker.keys import Keys
from worker.previews import preview_job
from worker.settings import ConfigError, load_ladders, load_settings
from worker.validation import quote

__all__ = ["PatientWorker", "decode_job", "encode_job", "worker_settings"]

log = structlog.get_logger("worker.jobs")

#: The job that an unreadable job is turned into; a server cannot ask for it by name.
_UNREADABLE = "keep_unreadable_job"
#: Seconds that a job may take.
_JOB_SECONDS = 55.0
#: arq tries a cancelled job again as often as this: workers may come and go, a match may not be lost.
_TRIES = 100_000
#: How long the answer to a preview is kept, in seconds.
_KEEP_PREVIEW = 60


class PatientWorker(Worker):
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
    desk: Desk = ctx["desk"]
    raw = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else orjson.dumps(payload)
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        detail = f"message: not JSON: {error}"
        await patiently(lambda: desk.bury(raw, Reason.MALFORMED, detail))
        return
    ladder = data.get("ladder") if isinstance(data, dict) else None
    try:
        scope(ladder if isinstance(ladder, str) else "")
    except ValueError:
        detail = f"ladder: {quote(ladder)} is not allowed; the job's payload must name its ladder"
        await patiently(lambda: desk.bury(raw, Reason.INVALID, detail))
        return
    inbox = Keys(str(ladder)).inbox
    if ladder not in desk.ladders and not await patiently(lambda: desk.redis.exists(inbox)):
        detail = f"ladder: {quote(ladder)} is rated by no worker; known here are {', '.join(desk.ladders)}"
        await patiently(lambda: desk.bury(raw, Reason.WRONG_LADDER, detail))
        return
    await patiently(lambda: desk.redis.xadd(inbox, {FIELD: raw}))


async def keep_unreadable_job(ctx: dict[str, Any], raw: str, reason: str, detail: str) -> None:
    """Keeps a job that could not be read; `raw` is its bytes in base 64."""
    desk: Desk = ctx["desk"]
    await patiently(lambda: desk.bury(base64.b64decode(raw), Reason(reason), detail))


async def housekeeping(ctx: dict[str, Any]) -> None:
    """Once a minute: trims each ledger by age, unless it is archived first by a worker that has the file."""
    desk: Desk = ctx["desk"]
    if desk.archivist.archive is None:
        for ladder in desk.ladders:
            await desk.archivist.run_and_log(ladder, desk.keys(ladder))


async def close_periods(ctx: dict[str, Any]) -> None:
    """Once a minute: closes the rating periods that are over, by the adopted settings of each ladder."""
    desk: Desk = ctx["desk"]
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
        "et": int(time.time() * 1000),
    }


async def _startup(ctx: dict[str, Any]) -> None:
    desk: Desk = ctx["desk"]
    try:
        await patiently(desk.start, seconds=math.inf)
    except UnfitServer as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(3) from None


async def _shutdown(ctx: dict[str, Any]) -> None:
    await ctx["desk"].stop()


def worker_settings() -> type[Any]:
    """arq's settings class for this environment; exits with code 2 and one sentence on a wrong one."""
    try:
        settings = load_settings()
        ladders = load_ladders(settings.config)
        desk = Desk(settings, ladders)
    except (ConfigError, ArchiveError, ValueError) as error:
        sys.stderr.write(f"match-ratings: {error}\n")
        raise SystemExit(2) from None
    logs.configure(settings.log_level, settings.log_format)
    # The arq command makes its worker by this name, with no place to say which class.
    arq.worker.Worker = PatientWorker  # type: ignore[misc]
    # A batch makes many short-lived objects and no cycles: looking for those less often is a tenth of
    # the worker's time saved.
    gc.set_threshold(20_000, 20, 50)

    class WorkerSettings:
        """What `arq worker.settings.WorkerSettings` runs."""

        queue_name = QUEUE
        functions = [
            func(match_finished, name=JOB, max_tries=_TRIES, keep_result=0),
            func(keep_unreadable_job, name=_UNREADABLE, max_tries=_TRIES, keep_result=0),
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
