"""Dead letters: find, inspect, edit, replay, discard, export and restore them.

Nothing here prints. Each change is one Lua script call, so that a message is in exactly one place
wherever a process ends. Everything raises redis.exceptions.RedisError when Redis does not answer.
"""

from .dead_letter_filter import DeadLetterFilter
from .dead_letter_store import DeadLetterStore
from .dry_run import DryRun, DryRunResult
from .edit_dead_letter import (
    EditResult,
    InvalidEdit,
    edit_dead_letter,
    edited_message,
    format_message,
    minify_message,
)
from .explain_rejection import Diagnosis, Trouble, diagnose
from .export_dead_letters import ExportedDeadLetter, InvalidExport, export_document
from .inspect_dead_letter import Inspection, inspect_dead_letter
from .replay_dead_letters import DeadLetterReplay
from .replay_log import ReplayOptions, UnknownReplay, new_replay_name
from .replay_results import ReplayOutcome, ReplayResult, ReplaySummary

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
