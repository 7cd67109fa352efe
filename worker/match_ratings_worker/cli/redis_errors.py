"""The connection to Redis for a command, and what to tell the user when it does not do its part."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import Installation

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.storage.ladder import LadderHandle

__all__ = ["connection", "refusals", "run", "run_on_ladder", "unavailable"]

T = TypeVar("T")


def connection(url: str) -> Redis:
    """A client for the server, Sentinels or cluster at a URL; it connects with its first command."""
    from match_ratings_worker.storage.connection import connect

    try:
        redis = connect(url)
        if hasattr(redis, "connection_pool"):
            redis.connection_pool.make_connection()  # refuses unknown options; opens nothing
    except (TypeError, ValueError):
        # What is wrong is not repeated: it may be a piece of a password.
        form = "redis://[user:password@]host[:port][/database], with what is special in it %-encoded"
        text = f"RATINGS_REDIS_URL: the value is not allowed: it cannot be read as {form}"
        raise CommandError(text, ExitCode.WRONG_INPUT) from None
    return redis


def run(url: str, act: Callable[[Redis], Awaitable[T]]) -> T:
    """Runs `act` with a connection to the Redis at a URL."""
    from match_ratings_worker.queries import Unreadable

    async def main() -> T:
        async with connection(url) as redis:
            return await act(redis)

    try:
        return asyncio.run(main())
    except refusals() as error:
        raise unavailable(url, error) from None
    except Unreadable as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from None


def run_on_ladder(
    installation: Installation, ladder: str | None, act: Callable[[LadderHandle], Awaitable[T]]
) -> T:
    """Runs `act` with the ladder of this name; an archive that cannot be read ends the command too."""
    from match_ratings_worker.environment import ladder_handle
    from match_ratings_worker.ledger.sqlite_archive import ArchiveError

    chosen, settings = installation.ladder(ladder), installation.settings
    try:
        return run(settings.redis_url, lambda redis: act(ladder_handle(redis, settings, chosen)))
    except ArchiveError as error:
        raise CommandError(f"RATINGS_ARCHIVE: {error}", ExitCode.UNAVAILABLE) from None


def refusals() -> tuple[type[Exception], ...]:
    """The errors by which the library says that Redis did not do its part."""
    from redis.exceptions import RedisClusterException, RedisError

    return RedisError, RedisClusterException


def unavailable(url: str, error: Exception) -> CommandError:
    """What to tell the user about an error of `refusals`."""
    from redis import exceptions

    place = _place(url)
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return CommandError(f"Redis at {place} refuses the user or password of its URL", ExitCode.UNAVAILABLE)
    lost = exceptions.ConnectionError, exceptions.TimeoutError, exceptions.RedisClusterException
    if isinstance(error, lost):
        return CommandError(f"Redis at {place} is not reachable: {_reason(error)}", ExitCode.UNAVAILABLE)
    return CommandError(f"Redis at {place} refuses: {_short(error)}", ExitCode.UNAVAILABLE)


def _place(url: str) -> str:
    """Where a URL leads, without user, password and options."""
    from match_ratings_worker.storage.redis_url import Address

    address = Address.parse(url)
    if "path" in address.options:
        return str(address.options["path"])
    own = (str(address.options.get("host", "localhost")), int(address.options.get("port", 6379)))
    hosts = [f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in address.hosts or (own,)]
    return ",".join(hosts) + (f"/{address.service}" if address.service else "")


def _reason(error: BaseException) -> str:
    """Why a connection failed, in a few words."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, socket.gaierror):
        return "this host name is not known"
    number = cause.errno if isinstance(cause, OSError) else None
    if number is None:  # several addresses were tried
        found = re.search(r"\[Errno (\d+)\]|Error (\d+) connecting", str(cause or error))
        number = int(found[1] or found[2]) if found else None
    if number is not None:
        return os.strerror(number).lower()
    return _short(error)


def _short(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
