"""dramatiq with an empty actor: `dramatiq peers.dramatiq_app`, or `python -m peers.dramatiq_app NUMBER`."""

import importlib
import os
import sys
from typing import Any

from peers.finish import Finish

_URL = os.environ["BENCH_REDIS_URL"]
_finish = Finish(_URL)
dramatiq: Any = importlib.import_module("dramatiq")
brokers: Any = importlib.import_module("dramatiq.brokers.redis")
broker = brokers.RedisBroker(url=_URL)
dramatiq.set_broker(broker)


def _empty(total: int) -> None:
    _finish.one_of(total)


empty = dramatiq.actor(_empty, actor_name="empty")


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        empty.send(int(sys.argv[1]))
