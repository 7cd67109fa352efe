"""Dead letters: found, understood, put right, replayed, discarded, taken away and brought back.

Nothing here prints. Every change is one Lua script call, so that a message is in exactly one place
wherever a process ends. All raise redis.exceptions.RedisError when Redis does not answer; clients must
return bytes.
"""

from worker.letters.diagnosis import Diagnosis, Trouble, diagnose
from worker.letters.edit import Edited, NotAllowed, assigned, edit
from worker.letters.forecast import Forecast, Verdict
from worker.letters.history import extended
from worker.letters.inspection import Inspection, inspect
from worker.letters.order import Order
from worker.letters.outcome import Outcome, Result, Summary
from worker.letters.records import BadRecord, Record, record_of
from worker.letters.replay import Replay
from worker.letters.run import UnknownRun, new_run_name
from worker.letters.selection import Filter
from worker.letters.store import Letters, Setup

__all__ = [
    "BadRecord",
    "Diagnosis",
    "Edited",
    "Filter",
    "Forecast",
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
    "UnknownRun",
    "Verdict",
    "assigned",
    "diagnose",
    "edit",
    "extended",
    "inspect",
    "new_run_name",
    "record_of",
]
