"""A spot check of receipts: a bounded sample of the ledger's younger events. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.storage.keys import Keys

__all__ = ["Receipt", "Sample"]

#: At most so many receipts are looked at.
_MOST: Final = 2000


class Receipt(NamedTuple):
    """A receipt that must be there."""

    key: str
    ledger_id: str
    #: When it was written, in ms.
    rated_at: int


class Sample:
    """Every so many-th event that has a receipt, evenly over those that it is fed."""

    def __init__(self, keys: Keys, *, oldest: int) -> None:
        """Events rated before `oldest` (ms) need no receipt any more."""
        self._prefixes = {
            Cause.MATCH: keys.receipt_,
            Cause.PRIZE: keys.prize_receipt_,
            Cause.VOID: keys.void_receipt_,
        }
        self._oldest, self._step, self._seen = oldest, 1, 0
        self.receipts: list[Receipt] = []

    def feed(self, ledger_id: str, event: RatingUpdated) -> None:
        """Takes the next event."""
        prefix = self._prefixes.get(event.cause)
        if prefix is None or event.rated_at < self._oldest:
            return
        self._seen += 1
        if self._seen % self._step:
            return
        key = prefix + (event.match_id or event.tournament_id or "")
        self.receipts.append(Receipt(key, ledger_id, event.rated_at))
        if len(self.receipts) > _MOST:
            self.receipts = self.receipts[1::2]
            self._step *= 2
