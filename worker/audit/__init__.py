"""The audit: replays a ladder's ledger from the start and compares what comes out with what is stored.

`Replay` is the pure core: it is fed events and knows what every player's standing must be; `computed`
computes an event again from nothing but its own figures; `compare` sets a standing against the stored
one. `audit` reads Redis around them.
"""

from worker.audit.compare import Stored, compare
from worker.audit.figures import Computed, computed
from worker.audit.ledger import Archive, Event
from worker.audit.replay import Replay
from worker.audit.report import Difference, Kind, Progress, Report
from worker.audit.rules import Rulebook
from worker.audit.run import audit
from worker.audit.standings import Track

__all__ = [
    "Archive",
    "Computed",
    "Difference",
    "Event",
    "Kind",
    "Progress",
    "Replay",
    "Report",
    "Rulebook",
    "Stored",
    "Track",
    "audit",
    "compare",
    "computed",
]
