"""Checks receipts: a bounded, evenly spread sample of the ledger's recent events."""

from __future__ import annotations

from typing import Final, NamedTuple

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.storage import LadderHandle, Receipt, server_time

from .audit_report import AuditReport, Difference, DifferenceKind

#: Size of the sample, at most.
_MOST: Final = 2000
#: Receipts read in one step.
_PAGE: Final = 500


class _Sampled(NamedTuple):
    """A receipt that must exist."""

    key: str
    ledger_id: str
    #: When it was written, in ms.
    rated_at: int


class ReceiptSample:
    """Every n-th of the events it is fed that have a receipt; n grows with their number."""

    def __init__(self, ladder: LadderHandle, now: int) -> None:
        """Events older than the horizon before `now` (ms) need no receipt any more."""
        keys = ladder.keys
        self._prefixes = {
            Cause.MATCH: keys.receipt_,
            Cause.PRIZE: keys.prize_receipt_,
            Cause.VOID: keys.void_receipt_,
        }
        self._oldest, self._step, self._seen = now - ladder.horizon_ms, 1, 0
        self.sampled: list[_Sampled] = []

    def feed(self, ledger_id: str, event: RatingUpdated) -> None:
        """Takes the next event."""
        prefix = self._prefixes.get(event.cause)
        if prefix is None or event.rated_at < self._oldest:
            return
        self._seen += 1
        if self._seen % self._step:
            return
        key = prefix + (event.match_id or event.tournament_id or "")
        self.sampled.append(_Sampled(key, ledger_id, event.rated_at))
        if len(self.sampled) > _MOST:
            self.sampled = self.sampled[1::2]
            self._step *= 2


async def check_receipts(ladder: LadderHandle, sample: ReceiptSample, report: AuditReport) -> None:
    """Reports each receipt of the sample that has not expired and does not name its event."""
    oldest = await server_time(ladder.redis, ladder.keys.inbox) - ladder.horizon_ms
    wanted = [item for item in sample.sampled if item.rated_at > oldest]
    report.receipts = len(wanted)
    for start in range(0, len(wanted), _PAGE):
        page = wanted[start : start + _PAGE]
        stored = await ladder.redis.mget([item.key for item in page])
        for item, text in zip(page, stored, strict=True):
            named = Receipt.parse(text).ledger_id
            if named != item.ledger_id:
                sentence = f"event {item.ledger_id}: its receipt names {named or 'nothing'}"
                report.add(Difference(DifferenceKind.RECEIPT, sentence, ledger_id=item.ledger_id))
