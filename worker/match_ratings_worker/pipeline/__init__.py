"""The way of a match: claim, validate, read, decide, commit."""

from match_ratings_worker.pipeline.batch import (
    Action,
    BatchSnapshot,
    Commit,
    InboxEntry,
    LadderRules,
    Limits,
    ReplayOrigin,
)
from match_ratings_worker.pipeline.batch_processor import BatchProcessor
from match_ratings_worker.pipeline.close_due_periods import (
    ClosedPeriod,
    PeriodCloser,
    adopted_store,
    close_and_log,
)
from match_ratings_worker.pipeline.decide_batch import decide
from match_ratings_worker.pipeline.ladder_store import LadderStore
from match_ratings_worker.pipeline.stream_consumer import StreamConsumer
from match_ratings_worker.pipeline.validate_message import Problem, digest, message_model, read_message

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
