"""saq with an empty job: `saq peers.saq_app.settings`, or `python -m peers.saq_app NUMBER` to queue jobs."""

import asyncio
import importlib
import os
import sys
from typing import Any

from peers.finish import Finish

_URL = os.environ["BENCH_REDIS_URL"]
_finish = Finish(_URL)
saq: Any = importlib.import_module("saq")
queue = saq.Queue.from_url(_URL)


async def empty(ctx: Any, *, total: int) -> None:
    _finish.one_of(total)


settings = {"queue": queue, "functions": [empty]}


async def _fill(total: int) -> None:
    await queue.connect()
    for _ in range(0, total, 500):
        await asyncio.gather(*(queue.enqueue("empty", total=total) for _ in range(500)))
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(_fill(int(sys.argv[1])))
