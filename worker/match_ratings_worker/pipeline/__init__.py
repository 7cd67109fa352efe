"""The way of a match: claim, validate, read, decide, commit."""

from .claim_read_commit import LadderStore
from .close_due_periods import ClosedPeriod, PeriodCloser, adopted_store, close_and_log
from .consume_and_take_over import StreamConsumer
from .decide_batch import decide
from .message_batch import Action, BatchSnapshot, Commit, InboxEntry, LadderRules, Limits, ReplayOrigin
from .process_batch import BatchProcessor
from .validate_message import Problem, digest, message_model, read_message

__all__ = [
    "Action",
    "BatchProcessor",
    "BatchSnapshot",
    "ClosedPeriod",
    "Commit",
    "InboxEntry",
    "LadderRules",
    "LadderStore",
    "Limits",
    "PeriodCloser",
    "Problem",
    "ReplayOrigin",
    "StreamConsumer",
    "adopted_store",
    "close_and_log",
    "decide",
    "digest",
    "message_model",
    "read_message",
]
