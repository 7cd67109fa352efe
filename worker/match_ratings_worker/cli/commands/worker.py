"""`worker`: rate matches until told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from match_ratings_worker.cli.installation import UNAVAILABLE, CommandError, load_installation
from match_ratings_worker.cli.redis_errors import run
from match_ratings_worker.runtime.process_supervisor import supervise

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.environment import Settings

__all__ = ["worker"]


def worker(
    processes: Annotated[
        int, typer.Option(min=1, max=256, help="How many worker processes to run on this machine.")
    ] = 1,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Rate beside another rater, into keys of its own; the same as RATINGS_SHADOW=1."
        ),
    ] = False,
) -> None:
    """Rate the matches of all configured ladders until SIGTERM or Ctrl-C.

    Settings and server are looked at first, without waiting for a Redis that is away; once started,
    the worker waits for a lost Redis, however long. It finishes the batch in hand before it ends.
    Start as many workers as you like, on any number of machines; with --processes several on this one,
    started anew when one of them dies. The same as
    `arq match_ratings_worker.settings.WorkerSettings`, with a faster event loop.
    """
    if shadow:
        os.environ["RATINGS_SHADOW"] = "1"  # for the processes that are started, too
    site = load_installation()
    # Until arq has its own handlers, and again when it is done with them.
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        run(site.settings.redis_url, _check_server)
        run(site.settings.queue_url, _check_queue)
        if processes == 1:
            _rate()
        elif code := supervise(
            [sys.executable, "-P", "-m", "match_ratings_worker", "worker"], _ports(site.settings, processes)
        ):
            raise SystemExit(code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ports(settings: Settings, processes: int) -> list[dict[str, str]]:
    """For each process what it is told besides: its own port for its figures."""
    if settings.metrics_port is None:
        return [{} for _ in range(processes)]
    return [{"RATINGS_METRICS_PORT": str(settings.metrics_port + index)} for index in range(processes)]


def _rate() -> None:
    from arq.worker import get_kwargs

    from match_ratings_worker.jobs.worker_settings import worker_settings
    from match_ratings_worker.runtime.arq_worker import GracefulWorker

    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        GracefulWorker(**cast(Any, get_kwargs(worker_settings()))).run()
    finally:
        loop.close()


async def _check_server(redis: Redis) -> None:
    from match_ratings_worker.storage.server_checks import UnsupportedServer, server_warnings

    try:
        await server_warnings(redis)
    except UnsupportedServer as error:
        raise CommandError(str(error), UNAVAILABLE) from None


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
