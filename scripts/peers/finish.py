"""Run inside a peer's worker: takes the time and the CPU between its first and its last empty job.

Only the standard library and a Redis client are needed, since each peer has an environment of its own.
"""

from __future__ import annotations

import itertools
import json
import time

#: Where the figures are left.
KEY = "bench:finish"


class Finish:
    """Counts the jobs of this process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = itertools.count(1)
        self._begun = 0.0
        self._cpu = 0.0

    def one_of(self, total: int) -> None:
        """Counts one job of `total`."""
        number = next(self._count)
        if number == 1:
            self._begun, self._cpu = time.perf_counter(), time.process_time()
        elif number == total:
            seconds, cpu = time.perf_counter() - self._begun, time.process_time() - self._cpu
            import redis

            client = redis.Redis.from_url(self._url)
            client.set(KEY, json.dumps({"seconds": seconds, "cpu": cpu, "jobs": total - 1}))
            client.close()
