"""A connection that breaks."""

from __future__ import annotations

import asyncio

from embedded import Server


class Flaky:
    """Stands between a client and the server, and breaks the first connections after some replies."""

    def __init__(self, server: Server, replies: list[int]) -> None:
        self.server, self.replies = server, replies
        self.port = 0

    async def __aenter__(self) -> Flaky:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.replies.pop(0) if self.replies else None
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.server.port)

        async def forward() -> None:
            while data := await reader.read(65_536):
                to_writer.write(data)

        async def back() -> None:
            nonlocal left
            while left is None or left > 0:
                if not (data := await to_reader.read(65_536)):
                    break
                writer.write(data)
                left = left - 1 if left is not None else None

        both = [asyncio.create_task(forward()), asyncio.create_task(back())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        for end in (writer, to_writer):
            end.close()
