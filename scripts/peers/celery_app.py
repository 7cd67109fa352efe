"""celery with an empty task: `celery -A peers.celery_app worker`, or `python -m peers.celery_app NUMBER`."""

import importlib
import os
import sys
from typing import Any

from peers.finish import Finish

_URL = os.environ["BENCH_REDIS_URL"]
_finish = Finish(_URL)
celery: Any = importlib.import_module("celery")
app = celery.Celery("bench", broker=_URL)
app.conf.task_ignore_result = True
app.conf.worker_hijack_root_logger = False


def _empty(total: int) -> None:
    _finish.one_of(total)


empty = app.task(_empty, name="empty")


if __name__ == "__main__":
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        for _ in range(int(sys.argv[1])):
            empty.apply_async((int(sys.argv[1]),), producer=producer)
