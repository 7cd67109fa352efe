"""Limit the speed of a replay, and detect when it no longer gets on."""

from __future__ import annotations

import time
from typing import Final

from .dead_letter_store import DeadLetterStore

#: Seconds between two checks of whether workers run and work.
_CHECK_SECONDS: Final = 1.0
#: How long a live match may wait behind replayed ones, and how long the workers' speed is measured, in s.
_DELAY_SECONDS, _MEASURE_SECONDS = 0.025, 0.25
#: Entries that the inbox may hold however slow the workers are.
_MIN_ENTRIES: Final = 32


class RateLimiter:
    """Token bucket: at most `rate` letters a second; unlimited when None."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def allowed(self, wanted: int) -> int:
        """How many of `wanted` may go now."""
        if self._rate is None:
            return wanted
        now = time.monotonic()
        # At most the last tenth of a second may be caught up on.
        self._due = max(self._due, now - max(0.1, 1 / self._rate))
        return min(wanted, int((now - self._due) * self._rate))

    @property
    def exhausted(self) -> bool:
        """Whether not even one may go now."""
        return self.allowed(1) == 0

    def record_moved(self, count: int) -> None:
        """Record `count` letters as moved."""
        if self._rate is not None:
            self._due += count / self._rate


class InboxLimit:
    """Entries the inbox may hold: as many as the workers settle before a live match behind them feels it."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        #: The limit now, in entries.
        self.entries = min(_MIN_ENTRIES, maximum)
        self._since = time.monotonic()
        self._settled = 0

    def record_settled(self, count: int) -> None:
        """Record `count` messages as settled and adapt the limit to the workers' speed."""
        self._settled += count
        elapsed = time.monotonic() - self._since
        if elapsed >= _MEASURE_SECONDS:
            measured = int(self._settled / elapsed * _DELAY_SECONDS)
            self.entries = min(max(measured, _MIN_ENTRIES), self._maximum)
            self._since, self._settled = time.monotonic(), 0


class StallDetector:
    """Detector of a stalled replay: no worker runs, or nothing was settled for `timeout` seconds."""

    def __init__(self, letters: DeadLetterStore, timeout: float) -> None:
        self._letters = letters
        self._timeout = timeout
        self._progress_at = self._checked_at = time.monotonic()
        self._settled = 0

    def record_progress(self) -> None:
        """Restart the timeout."""
        self._progress_at = time.monotonic()

    async def reason_to_stop(self, *, now: bool = False) -> str:
        """Why the replay is stalled, empty when it is not; checked once a second, or right `now`."""
        clock = time.monotonic()
        if not now and clock - self._checked_at < _CHECK_SECONDS:
            return ""
        self._checked_at = clock
        if not await self._letters.has_worker():
            return "no worker rates this ladder"
        settled = await self._letters.settled_count()
        if settled != self._settled:  # the workers are busy with messages that came first
            self._settled = settled
            self._progress_at = clock
        if clock - self._progress_at > self._timeout:
            return f"nothing was settled for {self._timeout:g} s"
        return ""
