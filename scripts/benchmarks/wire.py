"""A minimal Redis client: commands packed beforehand, sent without waiting for the replies between them."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
from collections.abc import Iterable
from typing import Any

import hiredis

__all__ = ["Wire", "pack"]

_REFUSED = re.compile(rb"(?:^|\r\n)-([A-Z]{3,}[^\r]*)")
_TAIL = 256


def pack(*command: str | bytes | int) -> bytes:
    """One command in the server's protocol."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its types know one argument only
    return packed


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape")

    def call(self, *command: str | bytes | int) -> Any:
        """The reply to one command, texts as str; raises hiredis.ReplyError when it is refused."""
        self.socket.sendall(pack(*command))
        reply = self.receive()
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def receive(self) -> Any:
        """The next reply."""
        while (reply := self._reader.gets()) is False:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def flood(self, payload: bytes) -> tuple[float, bytes]:
        """Sends packed commands as fast as the server takes them and throws the replies away.

        Returns the seconds until the last reply and the end of the replies' bytes. Raises RuntimeError
        when one of the commands is refused.
        """
        mark = f"mark-{time.monotonic_ns()}".encode()
        end = b"$%d\r\n%b\r\n" % (len(mark), mark)
        rest, tail = memoryview(payload + pack("ECHO", mark)), b""
        self.socket.setblocking(False)
        begun = time.perf_counter()
        try:
            while not tail.endswith(end):
                _, writable, _ = select.select([self.socket], [self.socket] if rest else [], [], 60)
                if writable:
                    with contextlib.suppress(BlockingIOError):
                        rest = rest[self.socket.send(rest[: 1 << 18]) :]
                tail = self._swallow(tail)
        finally:
            self.socket.setblocking(True)
        return time.perf_counter() - begun, tail[: -len(end)]

    def _swallow(self, tail: bytes) -> bytes:
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return tail
        if not data:
            raise ConnectionError("the server closed the connection")
        data = tail + data
        if refused := _REFUSED.search(data):
            raise RuntimeError(f"the server refused: {refused[1].decode(errors='replace')}")
        return data[-_TAIL:]

    def at_once(self, commands: Iterable[bytes]) -> float:
        """Carries packed commands out in one transaction; returns the server's time when they were done."""
        payload = b"".join((pack("MULTI"), *commands, pack("TIME"), pack("EXEC")))
        _, tail = self.flood(payload)
        found = re.search(rb"\*2\r\n\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n$", tail)
        if not found:
            raise RuntimeError("the server did not carry out a transaction")
        return int(found[1]) + int(found[2]) / 1e6

    def discard(self) -> None:
        """Throws away the replies that are there already."""
        try:
            while len(self.socket.recv(1 << 16, socket.MSG_DONTWAIT)) == 1 << 16:
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Closes the connection."""
        self.socket.close()
