"""A ladder's rating-updated events, in Redis and in the archive: read, archived, trimmed.

`open_ledger` gives the one reader of both; `trace`, `recent_changes` and `period_games` answer questions
with it. A `Ledger` without an archive reads Redis alone.
"""

from .archive_and_trim import ArchiveMismatch, Archiver, open_archiver
from .player_events import period_games, recent_changes
from .read_ledger import Ledger, LedgerTrimmed, open_ledger, parse_event
from .sqlite_archive import Archive, ArchiveError, StoredEvent
from .trace_match import MatchOutcome, Trace, trace

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveMismatch",
    "Archiver",
    "Ledger",
    "LedgerTrimmed",
    "MatchOutcome",
    "StoredEvent",
    "Trace",
    "open_archiver",
    "open_ledger",
    "parse_event",
    "period_games",
    "recent_changes",
    "trace",
]
