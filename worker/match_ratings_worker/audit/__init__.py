"""The audit: replays a ladder's ledger from the start and compares the result with the stored data.

The pure core: `LedgerReplay` is fed events and knows every player's expected state, `recompute_event`
computes an event again from its own figures, `compare_player` compares an expected player with the stored
one. `audit_ladder` reads Redis around them.
"""

from .audit_ladder import audit_ladder
from .audit_report import AuditReport, Difference, DifferenceKind, Progress
from .recompute_event import FAULTS, recompute_event

__all__ = [
    "AuditReport",
    "Difference",
    "DifferenceKind",
    "FAULTS",
    "Progress",
    "audit_ladder",
    "recompute_event",
]
