"""Waiting for conditions: no test sleeps to give something time, it waits until it sees what it needs."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil
from redis.exceptions import RedisError

__all__ = ["PATIENCE", "eventually", "until", "until_at_rest"]

T = TypeVar("T")

#: Seconds after which something is taken to hang: far more than anything here needs on a busy machine.
PATIENCE = 60.0


def _nothing_to_say() -> str:
    return "it did not happen"


def until(
    happened: Callable[[], T],
    seconds: float = PATIENCE,
    *,
    pause: float = 0.01,
    otherwise: Callable[[], str] = _nothing_to_say,
) -> T:
    """Waits until something is true and returns it; an unreachable Redis counts as not yet.

    `otherwise` is asked what to say when it does not happen.
    """
    deadline = time.monotonic() + seconds
    while True:
        error: Exception | None = None
        try:
            if found := happened():
                return found
        except (RedisError, OSError) as caught:
            error = caught
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {otherwise()}") from error
        time.sleep(pause)


async def eventually(
    happened: Callable[[], Any],
    seconds: float = PATIENCE,
    *,
    pause: float = 0.01,
    otherwise: Callable[[], str] = _nothing_to_say,
) -> Any:
    """`until` for asynchronous code; `happened` may be asynchronous itself."""
    deadline = time.monotonic() + seconds
    while True:
        error: Exception | None = None
        try:
            found = happened()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
        except (RedisError, OSError) as caught:
            error = caught
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {otherwise()}") from error
        await asyncio.sleep(pause)


def until_at_rest(*pids: int, otherwise: Callable[[], str] = _nothing_to_say) -> None:
    """Waits until processes only wait themselves, for input or replies.

    They sleep and have not been awake between five looks: one that is only kept from running does not sleep.
    """
    looks: list[list[int]] = []

    def at_rest() -> bool:
        processes = [psutil.Process(pid) for pid in pids]
        if any(process.status() != psutil.STATUS_SLEEPING for process in processes):
            looks.clear()
        looks.append([sum(process.num_ctx_switches()) for process in processes])
        return len(looks) > 5 and looks[-1] == looks[-5]

    until(at_rest, pause=0.02, otherwise=otherwise)
