"""Run a command's coroutine with a connection to Redis, or on a ladder in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis

from match_ratings_worker.environment_variables import ladder_handle
from match_ratings_worker.ledger import ArchiveError
from match_ratings_worker.storage import LadderHandle, Unreadable, connect

from .configured_ladders import Installation
from .exit_codes import CommandError, ExitCode
from .redis_errors import REDIS_ERRORS, unavailable

T = TypeVar("T")


def connect_or_fail(url: str) -> Redis:
    """A client for the server, Sentinels or cluster at a URL; it connects with its first command.

    Raises CommandError for a URL that is not allowed.
    """
    try:
        redis = connect(url)
        if hasattr(redis, "connection_pool"):
            redis.connection_pool.make_connection()  # refuses unknown options; opens nothing
    except (TypeError, ValueError):
        # The value is not repeated: it may be a piece of a password.
        form = "redis://[user:password@]host[:port][/database], with what is special in it %-encoded"
        text = f"RATINGS_REDIS_URL: the value is not allowed: it cannot be read as {form}"
        raise CommandError(text, ExitCode.WRONG_INPUT) from None
    return redis


def run_with_redis(url: str, act: Callable[[Redis], Awaitable[T]]) -> T:
    """Run `act` with a client for the Redis at a URL; raise CommandError if Redis fails."""

    async def main() -> T:
        async with connect_or_fail(url) as redis:
            return await act(redis)

    try:
        return asyncio.run(main())
    except REDIS_ERRORS as error:
        raise unavailable(url, error) from None
    except Unreadable as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from None


def run_on_ladder(
    installation: Installation, ladder: str | None, act: Callable[[LadderHandle], Awaitable[T]]
) -> T:
    """Run `act` on the ladder of this name; raise CommandError if Redis or the archive fails."""
    chosen, settings = installation.ladder(ladder), installation.settings
    try:
        return run_with_redis(settings.redis_url, lambda redis: act(ladder_handle(redis, settings, chosen)))
    except ArchiveError as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from None
