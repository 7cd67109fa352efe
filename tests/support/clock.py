"""Times in milliseconds. Tests derive every time from the clock's, so that they pass on any day."""

from __future__ import annotations

import time
from datetime import UTC, datetime

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

#: The month in which this run began: it may end in another.
_TODAY = datetime.now(UTC)


def now_ms() -> int:
    return int(time.time() * 1000)


def month_start(back: int) -> int:
    """The start of the month `back` months before that in which the run began, in UTC."""
    months = _TODAY.year * 12 + _TODAY.month - 1 - back
    return int(datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC).timestamp() * 1000)
