"""Ends a long task that somebody has cancelled, also when nothing told it."""

from __future__ import annotations

import asyncio

__all__ = ["raise_if_cancelled"]


def raise_if_cancelled() -> None:
    """Raises CancelledError in a task that was cancelled.

    redis-py sends with `asyncio.wait_for`, which before Python 3.12 can swallow a cancellation; a task
    that sends many commands would run on.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
