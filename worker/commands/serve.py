"""`worker`: rate matches until told to stop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, NoReturn

from worker.commands.common import UNAVAILABLE, Fault, load_site
from worker.commands.server import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["worker"]


def worker() -> None:
    """Rate the matches of all configured ladders until SIGTERM or Ctrl-C.

    Settings and server are looked at first, without waiting for a Redis that is away; once started,
    the worker waits for a lost Redis, however long. It finishes the batch in hand before it ends.
    Start as many workers as you like, on any number of machines. The same as
    `arq worker.settings.WorkerSettings`, with a faster event loop.
    """
    site = load_site()
    # Until arq has its own handlers, and again when it is done with them.
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        run(site.settings.redis_url, _check_server)
        run(site.settings.queue_url, _check_queue)
        _rate()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rate() -> None:
    from arq.worker import create_worker

    from worker.jobs import worker_settings

    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        create_worker(worker_settings()).run()
    finally:
        loop.close()


async def _check_server(redis: Redis) -> None:
    from worker.connect import UnfitServer, dangers

    try:
        await dangers(redis)
    except UnfitServer as error:
        raise Fault(str(error), UNAVAILABLE) from None


async def _check_queue(redis: Redis) -> None:
    await redis.ping()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _stop(number: int, frame: Any) -> NoReturn:
    raise SystemExit(0)
