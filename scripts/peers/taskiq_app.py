"""taskiq-redis with an empty task, over a stream with acknowledgements.

`taskiq worker peers.taskiq_app:broker`, or `python -m peers.taskiq_app NUMBER` to queue tasks.
"""

import asyncio
import importlib
import os
import sys
from typing import Any

from peers.finish import Finish

_URL = os.environ["BENCH_REDIS_URL"]
_finish = Finish(_URL)
taskiq_redis: Any = importlib.import_module("taskiq_redis")
broker = taskiq_redis.RedisStreamBroker(url=_URL, consumer_id="0")


async def _empty(total: int) -> None:
    _finish.one_of(total)


empty = broker.task(task_name="empty")(_empty)


async def _fill(total: int) -> None:
    await broker.startup()
    for _ in range(0, total, 50):
        await asyncio.gather(*(empty.kiq(total) for _ in range(50)))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(_fill(int(sys.argv[1])))
