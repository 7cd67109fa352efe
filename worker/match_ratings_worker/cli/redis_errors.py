"""Turn an error of Redis into the sentence with which a command ends."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

from redis import exceptions

from match_ratings_worker.storage import Address

from .exit_codes import CommandError, ExitCode

#: The errors of the client when Redis cannot be reached or refuses a command.
REDIS_ERRORS: Final = exceptions.RedisError, exceptions.RedisClusterException


def unavailable(url: str, error: Exception) -> CommandError:
    """The sentence for one of REDIS_ERRORS; it never repeats a password."""
    place = _place(url)
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return CommandError(f"Redis at {place} refuses the user or password of its URL", ExitCode.UNAVAILABLE)
    lost = exceptions.ConnectionError, exceptions.TimeoutError, exceptions.RedisClusterException
    if isinstance(error, lost):
        return CommandError(f"Redis at {place} is not reachable: {_reason(error)}", ExitCode.UNAVAILABLE)
    return CommandError(f"Redis at {place} refuses: {_short(error)}", ExitCode.UNAVAILABLE)


def _place(url: str) -> str:
    """The hosts and service of a URL, without user, password and options."""
    address = Address.parse(url)
    if "path" in address.options:
        return str(address.options["path"])
    own = (str(address.options.get("host", "localhost")), int(address.options.get("port", 6379)))
    hosts = [f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in address.hosts or (own,)]
    return ",".join(hosts) + (f"/{address.service}" if address.service else "")


def _reason(error: BaseException) -> str:
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
