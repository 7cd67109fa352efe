"""Pauses between tries, growing from try to try."""

from __future__ import annotations


class Backoff:
    """Pauses that double from `first` up to `cap`, both in seconds."""

    def __init__(self, first: float, cap: float) -> None:
        self._first, self._cap = first, cap
        self._next = first

    @property
    def started(self) -> bool:
        """Whether a pause was taken since the start or the last reset."""
        return self._next > self._first

    def next_pause(self) -> float:
        """Take the next pause, in seconds."""
        pause = self._next
        self._next = pause * 2 if pause < self._cap else pause
        return min(pause, self._cap)

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._next = self._first
