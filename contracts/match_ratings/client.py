"""What a Python match server, lobby or leaderboard calls: publish, enqueue, and the event iterator."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    RedisError,
    TimeoutError,
)

from match_ratings.messages import MatchFinished, MatchVoided, RatingUpdated, TournamentFinished
from match_ratings.stream_names import FIELD, JOB, PREVIEW, QUEUE, inbox, outbox

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["AskingPool", "NotReplicated", "ask_workers", "enqueue", "preview", "publish", "rating_updates"]

#: A job is rated as long as its match would be: the default horizon.
_JOB_EXPIRES = timedelta(days=14)
#: How long a lost connection is waited for between tries, in seconds.
_RETRY_SECONDS = 0.5
_STREAM_ID = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")
#: How long replicas are waited for, in ms.
_REPLICATE_MS = 1000


class _ArqPool(Protocol):
    """The part of arq's pool that is used here, so that contracts do not need arq."""

    job_serializer: Any

    async def enqueue_job(self, function: str, *args: Any, **options: Any) -> Any: ...


class AskingPool(_ArqPool, Protocol):
    """The part of arq's pool that a job with an answer needs."""

    job_deserializer: Any


def _json_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class NotReplicated(RedisError):
    """The primary has the message, but too few replicas confirmed it in time."""


async def publish(
    redis: Redis, message: MatchFinished | TournamentFinished | MatchVoided, *, replicas: int = 0
) -> str:
    """Write a message to its ladder's inbox and return its stream id.

    With `replicas` it returns only when that many replicas have the message too, so that it survives
    the loss of the primary (not on a cluster client). Sending the same match again is safe: it has one
    effect. Raises redis.exceptions.RedisError when the message was not confirmed, NotReplicated among
    them; then send it again.
    """
    stream = inbox(message.ladder)
    fields: dict[Any, Any] = {FIELD: message.model_dump_json()}
    if replicas:
        async with redis.pipeline(transaction=False) as pipe:
            pipe.xadd(stream, fields)
            pipe.wait(replicas, _REPLICATE_MS)
            written, confirmed = await pipe.execute()
        if confirmed < replicas:
            msg = f"{confirmed} of {replicas} replicas confirmed the message within {_REPLICATE_MS} ms"
            raise NotReplicated(msg)
    else:
        written = await redis.xadd(stream, fields)
    return written.decode() if isinstance(written, bytes) else str(written)


async def enqueue(arq: _ArqPool, message: MatchFinished | TournamentFinished | MatchVoided) -> None:
    """Hand a message to the workers as an arq job, for servers that already use arq.

    The job is written as JSON, whatever the pool's own serializer: a pickled one is never opened by
    the worker. There is no job id on purpose, since arq would drop a second job with the same one,
    conflicts included.
    """
    speaking_json = copy(arq)
    speaking_json.job_serializer = _json_bytes
    payload = message.model_dump(mode="json")
    await speaking_json.enqueue_job(JOB, payload, _queue_name=QUEUE, _expires=_JOB_EXPIRES)


async def preview(
    arq: AskingPool, ladder: str, players: tuple[str, str], *, timeout: float = 5.0, **choice: Any
) -> dict[str, Any]:
    """What a match between two players would change, asked of the workers before it starts.

    Returns system, rules, players, new (those without a rating yet) and outcomes: for each result, and
    each cube value or match length where the system has them, both players' expected score, change and
    new rating. `choice` may hold cubes, lengths and finished_at. Raises ValueError for what is not
    allowed, and TimeoutError when no worker answers in `timeout` seconds.
    """
    request = {"ladder": ladder, "players": list(players), **choice}
    return await ask_workers(arq, PREVIEW, request, timeout=timeout, expires=timedelta(seconds=timeout))


async def ask_workers(
    arq: AskingPool,
    job: str,
    request: Mapping[str, Any],
    *,
    timeout: float,
    expires: timedelta = timedelta(days=1),
) -> dict[str, Any]:
    """Run an arq job of the workers that takes and returns a JSON object, whatever the pool's serializer.

    Entries that are None are left out of the request. The job is dropped if no worker takes it before it
    `expires`. Raises ValueError for a request that is refused, and TimeoutError when there is no answer in
    `timeout` seconds.
    """
    arq = copy(arq)
    arq.job_serializer, arq.job_deserializer = _json_bytes, json.loads
    given = {name: value for name, value in request.items() if value is not None}
    queued = await arq.enqueue_job(job, given, _queue_name=QUEUE, _expires=expires)
    answer: dict[str, Any] = await queued.result(timeout=timeout, poll_delay=0.05)
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


async def rating_updates(
    redis: Redis, ladder: str, *, start: str = "$", shadow: bool = False
) -> AsyncIterator[RatingUpdated]:
    """Yield a ladder's rating changes for ever, oldest first, each with its stream id in ``id``.

    `start` is a stream id to go on after (keep the last ``id`` you handled), "0" for the oldest
    event that is kept, or "$" for what comes from now on. A lost connection is taken up again where
    it broke, with no event missed or repeated. Each player's ``sequence`` has no gaps: one that you
    see is an event that had been trimmed before you read it. With `shadow` they are those of workers
    that rate beside another rater. Raises ValueError for a bad id.
    """
    stream = outbox(ladder, shadow=shadow)
    if start != "$" and not _STREAM_ID.fullmatch(start):
        msg = f"start: {start!r} is not a stream id; use one like 1700000000000-0, 0 or $"
        raise ValueError(msg)
    last = start
    while True:
        try:
            if last == "$":
                newest = await redis.xrevrange(stream, count=1)
                last = _text(newest[0][0]) if newest else "0-0"
            reply: Any = await redis.xread({stream: last}, count=500, block=5000)
        except (AuthenticationError, AuthorizationError):
            raise
        except (ConnectionError, TimeoutError, OSError):
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        for entry_id, fields in _entries(reply):
            last = _text(entry_id)
            raw = fields.get(FIELD.encode(), fields.get(FIELD))
            if raw is not None:
                yield RatingUpdated.model_validate_json(raw).model_copy(update={"id": last})


def _entries(reply: Any) -> list[tuple[Any, dict[Any, Any]]]:
    """The entries of an XREAD reply of one stream, in RESP 2 (list) or RESP 3 (dict) form."""
    if not reply:
        return []
    if isinstance(reply, dict):
        return [entry for batch in reply.values() for part in batch for entry in part]
    return list(reply[0][1])


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
