"""The audit: replays a ladder's ledger from the start and compares what comes out with what is stored.

`Replay` is the pure core: it is fed events and knows what every player's standing must be; `computed`
computes an event again from nothing but its own figures; `compare` sets a standing against the stored
one. `audit` reads Redis around them.
"""

from match_ratings_worker.audit.audit_report import Difference, Kind, Progress, Report
from match_ratings_worker.audit.compare_player import Stored, compare
from match_ratings_worker.audit.expected_player import ExpectedPlayer
from match_ratings_worker.audit.ledger_replay import Replay
from match_ratings_worker.audit.recompute_event import Recomputed, computed
from match_ratings_worker.audit.run_audit import audit
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory
from match_ratings_worker.ledger.read_ledger import Archive, Event

__all__ = [
    "Archive",
    "Recomputed",
    "Difference",
    "Event",
    "Kind",
    "Progress",
    "Replay",
    "Report",
    "SettingsHistory",
    "Stored",
    "ExpectedPlayer",
    "audit",
    "compare",
    "computed",
]
