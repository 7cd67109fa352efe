"""Dead letters: find, inspect, edit, replay, discard, export and restore them.

Nothing here prints. Each change is one Lua script call, so that a message is in exactly one place
wherever a process ends. Everything raises redis.exceptions.RedisError when Redis does not answer.
"""

from match_ratings_worker.dead_letters.dead_letter_filter import DeadLetterFilter
from match_ratings_worker.dead_letters.dead_letter_store import DeadLetterStore
from match_ratings_worker.dead_letters.diagnose_message import Diagnosis, Trouble, diagnose
from match_ratings_worker.dead_letters.dry_run import DryRun, DryRunResult
from match_ratings_worker.dead_letters.edit_dead_letter import (
    EditResult,
    InvalidEdit,
    edit_dead_letter,
    edited_message,
    format_message,
    minify_message,
)
from match_ratings_worker.dead_letters.export_dead_letters import (
    ExportedDeadLetter,
    InvalidExport,
    export_document,
)
from match_ratings_worker.dead_letters.inspect_dead_letter import Inspection, inspect_dead_letter
from match_ratings_worker.dead_letters.replay_dead_letters import DeadLetterReplay
from match_ratings_worker.dead_letters.replay_log import ReplayOptions, UnknownReplay, new_replay_name
from match_ratings_worker.dead_letters.replay_results import ReplayOutcome, ReplayResult, ReplaySummary

__all__ = [
    "DeadLetterFilter",
    "DeadLetterReplay",
    "DeadLetterStore",
    "Diagnosis",
    "DryRun",
    "DryRunResult",
    "EditResult",
    "ExportedDeadLetter",
    "Inspection",
    "InvalidEdit",
    "InvalidExport",
    "ReplayOptions",
    "ReplayOutcome",
    "ReplayResult",
    "ReplaySummary",
    "Trouble",
    "UnknownReplay",
    "diagnose",
    "edit_dead_letter",
    "edited_message",
    "export_document",
    "format_message",
    "inspect_dead_letter",
    "minify_message",
    "new_replay_name",
]
