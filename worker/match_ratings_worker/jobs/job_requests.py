"""Read the request of an arq job, carry it out and answer: one JSON object in, one JSON object out.

The answer has `ok`. When that is false, `error` is one sentence that says what is wrong with the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import orjson
import structlog
from arq import Retry
from pydantic import BaseModel, ConfigDict, ValidationError

from match_ratings_worker.environment_variables import ladder_handle
from match_ratings_worker.ledger import ArchiveError
from match_ratings_worker.queries import Unreadable
from match_ratings_worker.runtime import WorkerContext
from match_ratings_worker.safe_text import describe_error, quote
from match_ratings_worker.storage import CONNECTION_ERRORS, LadderHandle

log = structlog.get_logger(__name__)

#: How long an answer is kept, in seconds: a day.
KEEP_ANSWER_SECONDS: Final = 86_400
#: Items that an answer lists one by one, at most; its sums are of all.
MAX_LISTED: Final = 1000


class RequestRefused(Exception):
    """Raised when a well-formed request cannot be carried out; the text is one sentence."""


class LadderRequest(BaseModel):
    """Base of all requests; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Required where several ladders are configured.
    ladder: str | None = None


R = TypeVar("R", bound=LadderRequest)


def job_function(
    model: type[R],
    act: Callable[[LadderHandle, R, str], Awaitable[dict[str, Any]]],
    *,
    refusals: tuple[type[Exception], ...] = (),
    repeatable: bool = False,
) -> Callable[[dict[str, Any], Any], Awaitable[dict[str, Any]]]:
    """An arq function with one argument, the request (an object, or its JSON text), read as `model`.

    `act` gets the ladder, the request and arq's job id, which stays the same when arq tries the job again.
    Its `refusals` are answered as errors, like RequestRefused. A lost connection is an error too, unless
    the job is `repeatable`: then it goes back to the queue and is tried again.
    """
    errors: tuple[type[Exception], ...] = (RequestRefused, ArchiveError, Unreadable, *refusals)

    async def answer(ctx: dict[str, Any], request: Any = None) -> dict[str, Any]:
        context: WorkerContext = ctx["worker"]
        job_id = str(ctx["job_id"])
        try:
            text = request if isinstance(request, str) else orjson.dumps(request)
            read = model.model_validate_json(text)
            ladder = _ladder(context, read.ladder)
            return {"ok": True, **await act(ladder, read, job_id)}
        except ValidationError as error:
            return {"ok": False, "error": describe_error(error, whole="request")}
        except errors as error:
            return {"ok": False, "error": str(error)}
        except CONNECTION_ERRORS as error:
            detail = quote(str(error), 200)
            if repeatable:
                log.warning("Redis unavailable, retrying", job=job_id, error=detail)
                raise Retry(defer=1) from None
            return {"ok": False, "error": f"Redis did not answer: {detail}"}

    return answer


def _ladder(context: WorkerContext, name: str | None) -> LadderHandle:
    known = ", ".join(context.ladders)
    if name is None and len(context.ladders) > 1:
        raise RequestRefused(f"ladder: it is required with several ladders; use one of {known}")
    if name is not None and name not in context.ladders:
        raise RequestRefused(f"ladder: {quote(name)} is not configured; use one of {known}")
    ladder = context.ladders[name or next(iter(context.ladders))]
    return ladder_handle(context.redis, context.settings, ladder)
