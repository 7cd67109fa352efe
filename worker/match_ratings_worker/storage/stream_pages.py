"""Reads streams in pages; the server's clock and the ages of entries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
from redis.asyncio import Redis

#: A stream entry: its id, and its fields as bytes.
Entry = tuple[str, dict[bytes, bytes]]


class Unreadable(Exception):
    """Redis holds something under a ladder's key that no worker wrote; the text is one sentence."""


async def server_time(redis: Redis, key: str) -> int:
    """The clock in ms of the server that holds a key; stream ids and ages are counted by it."""
    # By a script, which a cluster routes by its key as it does not route TIME.
    seconds, micro = await redis.execute_command("EVAL", "return redis.call('TIME')", 1, key)
    return int(seconds) * 1000 + int(micro) // 1000


async def entries(
    redis: Redis,
    stream: str,
    *,
    oldest: str = "-",
    newest: str = "+",
    page: int = 1000,
    reverse: bool = False,
) -> AsyncIterator[Entry]:
    """The entries of a stream between two ids, ``(id`` leaving that one out; `page` are read at once."""
    while True:
        if reverse:
            found = await redis.xrevrange(stream, max=newest, min=oldest, count=page)
        else:
            found = await redis.xrange(stream, min=oldest, max=newest, count=page)
        for entry_id, fields in found:
            yield entry_id.decode(), fields
        if len(found) < page:
            return
        last = f"({found[-1][0].decode()}"
        oldest, newest = (oldest, last) if reverse else (last, newest)


def age(entry_id: str, now: int) -> int:
    """How long ago an entry was written, in ms; never negative, as an id may be a producer's own."""
    return max(now - whole(entry_id.partition("-")[0]), 0)


def whole(value: Any) -> int:
    """A stored whole number; 0 for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def as_json(text: str) -> tuple[bytes, bytes]:
    """The two forms of a text in our JSON: as it is, and with everything outside ASCII escaped."""
    return orjson.dumps(text), json.dumps(text).encode()
