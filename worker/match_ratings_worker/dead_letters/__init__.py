"""Dead letters: found, understood, put right, replayed, discarded, taken away and brought back.

Nothing here prints. Every change is one Lua script call, so that a message is in exactly one place
wherever a process ends. All raise redis.exceptions.RedisError when Redis does not answer; clients must
return bytes.
"""

from match_ratings_worker.dead_letters.diagnose_message import Diagnosis, Trouble, diagnose
from match_ratings_worker.dead_letters.dry_run import DryRun, Verdict
from match_ratings_worker.dead_letters.edit_history import extended
from match_ratings_worker.dead_letters.edit_message import Edited, NotAllowed, assigned, edit
from match_ratings_worker.dead_letters.export_records import BadRecord, Record, record_of
from match_ratings_worker.dead_letters.inspect_letter import Inspection, inspect
from match_ratings_worker.dead_letters.letter_filter import Filter
from match_ratings_worker.dead_letters.letter_store import Letters, Setup
from match_ratings_worker.dead_letters.replay import Replay
from match_ratings_worker.dead_letters.replay_options import Order
from match_ratings_worker.dead_letters.replay_outcome import Outcome, Result, Summary
from match_ratings_worker.dead_letters.replay_run import UnknownReplay, new_replay_name

__all__ = [
    "BadRecord",
    "Diagnosis",
    "Edited",
    "Filter",
    "DryRun",
    "Inspection",
    "Letters",
    "NotAllowed",
    "Order",
    "Outcome",
    "Record",
    "Replay",
    "Result",
    "Setup",
    "Summary",
    "Trouble",
    "UnknownReplay",
    "Verdict",
    "assigned",
    "diagnose",
    "edit",
    "extended",
    "inspect",
    "new_replay_name",
    "record_of",
]
