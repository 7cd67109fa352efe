"""A relay between a worker and its server that writes down what the worker sends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Self

import hiredis

from benchmarks.wire import pack

__all__ = ["Recorder"]


class Recorder:
    """Listens on a port of its own and passes everything on to another, both ways."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._said: list[tuple[int, bytes]] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def calls(self, name: bytes) -> list[bytes]:
        """All commands of this name that went through, packed, in the order in which they did."""
        readers: dict[int, hiredis.Reader] = {}
        found = []
        for connection, data in self._said:
            reader = readers.setdefault(connection, hiredis.Reader())  # a command is packed like a reply
            reader.feed(data)
            while (command := reader.gets()) is not False:
                if command[0].upper() == name:
                    found.append(pack(*command))
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._relay, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", self._target)
        connection = id(writer)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, listen: bool) -> None:
            while data := await source.read(1 << 18):
                if listen:
                    self._said.append((connection, data))
                sink.write(data)
                await sink.drain()
            sink.close()

        # asyncio of Python 3.11 prints the cancellation of a connection's task; the end is no error here.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(
                pump(reader, to_there, True), pump(there, writer, False), return_exceptions=True
            )
