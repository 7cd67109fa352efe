"""The months of FIDE's rating lists (UTC), as year * 100 + month: 202610."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def month_of(at: int) -> int:
    """The month (UTC) of a time in ms, as year * 100 + month: 202610."""
    day = _EPOCH + timedelta(milliseconds=at)
    return day.year * 100 + day.month


def month_end(month: int) -> int:
    """When a month such as 202610 ends (UTC): the first ms of the next, since 1970."""
    year, number = divmod(month, 100)
    end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return (end - _EPOCH) // timedelta(milliseconds=1)


def next_month(month: int) -> int:
    """The month after one such as 202612: 202701."""
    year, number = divmod(month, 100)
    return (year + number // 12) * 100 + number % 12 + 1
