"""Faster and cancellable sending for redis-py's connections.

This reaches into redis-py: `pack_command`, `send_packed_command` and `socket_timeout` of its asyncio
connections. Needless once Python 3.11 is no longer supported and redis-py packs commands with hiredis.
"""

from __future__ import annotations

import asyncio
import builtins
from typing import Any

import hiredis
from redis.exceptions import TimeoutError


class HiredisPacking:
    """Mixin for redis-py connections: packs the many arguments of scripts with hiredis."""

    socket_timeout: float | None

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send within the socket's timeout, and let a cancellation through.

        redis-py wraps the send in asyncio.wait_for, which on Python 3.11 may swallow a cancellation, so
        that a worker would not stop. Raises redis.exceptions.TimeoutError.
        """
        limit, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                # Defined in the class that this is mixed into.
                await super().send_packed_command(command, check_health)  # type: ignore[misc]
        except builtins.TimeoutError as error:
            msg = "Timeout writing to socket"
            raise TimeoutError(msg) from error
        finally:
            self.socket_timeout = limit

    def pack_command(self, *args: Any) -> list[bytes]:
        """Pack a command; redis-py gives those of two words, such as XGROUP CREATE, as one string."""
        name = args[0]
        if " " in name:
            args = (*name.split(), *args[1:])
        return [hiredis.pack_command(args)]


def with_hiredis_packing(base: type[Any]) -> type[Any]:
    """A subclass of a connection class that sends by way of `HiredisPacking`."""
    return type(f"Hiredis{base.__name__}", (HiredisPacking, base), {})
