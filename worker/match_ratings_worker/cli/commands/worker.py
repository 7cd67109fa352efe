"""`worker`: rate matches until a signal asks to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn, cast

import typer
from arq.worker import get_kwargs
from redis.asyncio import Redis

from match_ratings_worker.cli.configured_ladders import load_installation
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import integer_option
from match_ratings_worker.cli.run_with_redis import run_with_redis
from match_ratings_worker.environment_variables import Settings
from match_ratings_worker.jobs.arq_worker_settings import worker_settings
from match_ratings_worker.runtime import (
    GracefulWorker,
    WorkersKeepEnding,
    configure_logging,
    stop_signals,
    stop_with_supervisor,
    supervise,
)
from match_ratings_worker.storage import UnsupportedServer, server_warnings

_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with contextlib.suppress(ImportError):  # there is no uvloop for Windows
    import uvloop

    _new_loop = uvloop.new_event_loop


def worker(
    processes: Annotated[
        int, integer_option("--processes", 1, 256, help="Worker processes to run on this machine.")
    ] = 1,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Rate beside another rater, into keys of its own; the same as RATINGS_SHADOW=1."
        ),
    ] = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Rate the matches of all configured ladders until SIGTERM, SIGHUP or Ctrl-C.

    The settings and the server are checked first, without waiting for a Redis that is away. Once started,
    the worker waits for a lost Redis, for as long as it takes. It finishes the batch in hand before it ends.
    Any number of workers can run, on any number of machines; --processes runs several on this one and
    restarts those that die. After one of the signals the exit code is 0. The same as
    `arq match_ratings_worker.settings.WorkerSettings`, with a faster event loop.
    """
    if shadow:
        os.environ["RATINGS_SHADOW"] = "1"  # for the child processes, too
    settings = load_installation().settings
    # Until arq has its own handlers, and again when it is done with them.
    before = {number: signal.signal(number, _stop) for number in stop_signals()}
    if supervised:
        stop_with_supervisor()
    try:
        run_with_redis(settings.redis_url, _check_server)
        run_with_redis(settings.queue_url, _check_queue)
        if processes == 1:
            _rate()
        else:
            _supervise(settings, processes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _supervise(settings: Settings, processes: int) -> None:
    configure_logging(settings.log_level, settings.log_format)
    environments: list[dict[str, str]] = [{} for _ in range(processes)]
    if settings.metrics_port is not None:
        for index, environment in enumerate(environments):
            environment["RATINGS_METRICS_PORT"] = str(settings.metrics_port + index)
    try:
        code = supervise([*_python(), "-m", "match_ratings_worker", "worker", "--supervised"], environments)
    except WorkersKeepEnding as error:
        raise CommandError(str(error), ExitCode.FAILED) from None
    if code:
        raise SystemExit(code)


def _python() -> list[str]:
    """This interpreter, with its isolation, and without the working directory on its path (-P)."""
    options = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    return [sys.executable, "-P", *(option for option, is_set in options.items() if is_set)]


def _rate() -> None:
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        GracefulWorker(**cast(Any, get_kwargs(worker_settings()))).run()
    finally:
        loop.close()


async def _check_server(redis: Redis) -> None:
    try:
        await server_warnings(redis)
    except UnsupportedServer as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from None


async def _check_queue(redis: Redis) -> None:
    await redis.ping()


def _stop(number: int, frame: Any) -> NoReturn:
    raise SystemExit(0)
