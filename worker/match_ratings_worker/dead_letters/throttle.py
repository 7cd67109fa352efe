"""How fast a replay goes, and when it has to end."""

from __future__ import annotations

import time
from typing import Final

from match_ratings_worker.dead_letters.letter_store import Letters

__all__ = ["RateLimiter", "Room", "Watch"]

#: Seconds between two looks at whether workers still run and work.
_LOOK: Final = 1.0
#: How long a live match may wait behind replayed ones, in seconds, and how long their speed is measured.
_DELAY, _MEASURED = 0.025, 0.25
#: Entries that the inbox may hold however slow the workers are.
_LEAST: Final = 32


class RateLimiter:
    """So many a second, evenly; without a rate as many as there are."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def allowed(self, most: int) -> int:
        """How many may go now."""
        if self._rate is None:
            return most
        now = time.monotonic()
        # What was not used in the last tenth of a second may be made up for, but no more.
        self._due = max(self._due, now - max(0.1, 1 / self._rate))
        return min(most, int((now - self._due) * self._rate))

    @property
    def rests(self) -> bool:
        """Whether the next one has to wait for its time."""
        return self.allowed(1) == 0

    def went(self, count: int) -> None:
        """Says that so many went."""
        if self._rate is not None:
            self._due += count / self._rate


class Room:
    """How many entries the inbox may hold: what the workers settle in so short a time that a live match,
    which waits behind them, does not feel it.
    """

    def __init__(self, most: int) -> None:
        """`most` in entries."""
        self._most = most
        #: Entries.
        self.limit = min(_LEAST, most)
        self._since = time.monotonic()
        self._settled = 0

    def settled(self, count: int) -> None:
        """Says that so many were settled."""
        self._settled += count
        elapsed = time.monotonic() - self._since
        if elapsed >= _MEASURED:
            self.limit = min(max(int(self._settled / elapsed * _DELAY), _LEAST), self._most)
            self._since, self._settled = time.monotonic(), 0


class Watch:
    """Tells a replay that waits in vain from one that only has to wait."""

    def __init__(self, letters: Letters, *, idle: int, patience: float) -> None:
        """`idle` in ms, as in `Letters.has_worker`; `patience` in seconds."""
        self._letters = letters
        self._idle = idle
        self._patience = patience
        self._moved_at = self._looked_at = time.monotonic()
        self._settled = 0

    def moved(self) -> None:
        """Says that the replay has got on."""
        self._moved_at = time.monotonic()

    async def look(self, *, now: bool = False) -> str:
        """Why there is no use in waiting; "" when there is. It looks once a second, or `now`."""
        clock = time.monotonic()
        if not now and clock - self._looked_at < _LOOK:
            return ""
        self._looked_at = clock
        if not await self._letters.has_worker(self._idle):
            return "no worker rates this ladder"
        settled = await self._letters.settled()
        if settled != self._settled:  # they are busy with other messages, which come first
            self._settled = settled
            self._moved_at = clock
        if clock - self._moved_at > self._patience:
            return f"nothing was settled for {self._patience:g} s"
        return ""
