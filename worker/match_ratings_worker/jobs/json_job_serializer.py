"""Jobs as JSON: what arq writes to its queue, and how anything found there is read."""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from match_ratings import JOB, Reason
from match_ratings.stream_names import PREVIEW
from match_ratings_worker.safe_text import quote
from match_ratings_worker.time_units import now_ms

from .dead_letter_jobs import DEAD_LETTER_JOBS
from .void_jobs import VOID_JOBS

#: Name of the job that an unreadable job is turned into; one that arrives under this name is not run.
UNREADABLE_JOB: Final = "store_unreadable_job"
_CRON_JOBS: Final = ("cron:trim_ledgers", "cron:close_periods")
#: A time in ms that arq can handle is below this.
_TIME_LIMIT: Final = 100_000_000_000_000


def encode_job(job: dict[str, Any]) -> bytes:
    """A job or a result as JSON; values that JSON does not have are written as text."""
    return orjson.dumps(job, default=str)


def decode_job(raw: bytes) -> dict[str, Any]:
    """A job from its JSON.

    One that cannot be run is turned into a job that stores it as a dead letter: it is neither dropped
    nor, when it is pickled, ever unpickled.
    """
    try:
        job = orjson.loads(raw)
    except orjson.JSONDecodeError:
        pickled = raw[:1] == b"\x80"
        why = "it is pickled; give the arq pool JSON as its serializer" if pickled else "it is not JSON"
        return _unreadable(raw, Reason.MALFORMED, f"job: {why}")
    if not isinstance(job, dict) or not {"f", "a", "k", "et"} <= job.keys():
        return _unreadable(raw, Reason.MALFORMED, "job: it is not one of arq's jobs")
    name, args, kwargs = job["f"], job["a"], job["k"]
    if not (isinstance(name, str) and isinstance(args, list) and isinstance(kwargs, dict)):
        return _unreadable(raw, Reason.MALFORMED, "job: it is not one of arq's jobs")
    if type(job["et"]) is not int or not 0 <= job["et"] < _TIME_LIMIT:
        return _unreadable(raw, Reason.MALFORMED, "job: its time is not a number")
    job["t"] = None  # Redis counts the tries; a count given from outside could end the job
    if name == JOB:
        if (len(args) == 1 and not kwargs) or (not args and kwargs.keys() == {"payload"}):
            return job
        detail = f"job: {JOB} takes one argument, the match; it was given {len(args) + len(kwargs)}"
        return _unreadable(raw, Reason.INVALID, detail)
    # Nothing is lost with a request in the wrong form: its answer says what is wrong.
    if name == PREVIEW:
        return {**job, "a": [args[0] if args else kwargs.get("payload")], "k": {}}
    if name in DEAD_LETTER_JOBS or name in VOID_JOBS:
        return {**job, "a": [args[0] if args else kwargs], "k": {}}
    if name in _CRON_JOBS:
        return {**job, "a": [], "k": {}}
    return _unreadable(raw, Reason.INVALID, f"job: {quote(name)} is not known; use {JOB}")


def _unreadable(raw: bytes, reason: Reason, detail: str) -> dict[str, Any]:
    return {
        "t": None,
        "f": UNREADABLE_JOB,
        "a": [base64.b64encode(raw).decode(), reason.value, detail],
        "k": {},
        "et": now_ms(),
    }
