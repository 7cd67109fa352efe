"""The arq job `match_finished`: messages from servers that use arq, passed on to their ladder's inbox."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from match_ratings import Reason
from match_ratings.stream_names import FIELD, scope
from match_ratings_worker.runtime import WorkerContext, retry_while_unavailable
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import Keys


async def match_finished(ctx: dict[str, Any], payload: Any) -> None:
    """Append a message (an object, or its JSON text) to its ladder's inbox.

    One that names no ladder, or one that no worker rates, becomes a dead letter.
    """
    context: WorkerContext = ctx["worker"]

    async def reject(reason: Reason, detail: str) -> None:
        await retry_while_unavailable(lambda: context.add_dead_letter(raw, reason, detail))

    raw = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else orjson.dumps(payload)
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return await reject(Reason.MALFORMED, f"message: not JSON: {error}")
    ladder = data.get("ladder") if isinstance(data, dict) else None
    try:
        scope(ladder if isinstance(ladder, str) else "")
    except ValueError:
        detail = f"ladder: {quote(ladder)} is not allowed; the job's payload must name its ladder"
        return await reject(Reason.INVALID, detail)
    inbox = Keys(str(ladder)).inbox
    if ladder not in context.ladders and not await retry_while_unavailable(
        lambda: context.redis.exists(inbox)
    ):
        known = ", ".join(context.ladders)
        detail = f"ladder: {quote(ladder)} is rated by no worker; known here are {known}"
        return await reject(Reason.WRONG_LADDER, detail)
    await retry_while_unavailable(lambda: context.redis.xadd(inbox, {FIELD: raw}))


async def store_unreadable_job(ctx: dict[str, Any], raw: str, reason: str, detail: str) -> None:
    """Make a dead letter of a job that could not be read; `raw` is its bytes in base 64."""
    context: WorkerContext = ctx["worker"]
    message = base64.b64decode(raw)
    await retry_while_unavailable(lambda: context.add_dead_letter(message, Reason(reason), detail))
