"""The way of a match: claim, validate, read, decide, commit."""

from .batch import Action, BatchSnapshot, Commit, InboxEntry, LadderRules, Limits, ReplayOrigin
from .batch_processor import BatchProcessor
from .close_due_periods import ClosedPeriod, PeriodCloser, adopted_store, close_and_log
from .decide_batch import decide
from .ladder_store import LadderStore
from .stream_consumer import StreamConsumer
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
