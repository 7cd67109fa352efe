"""One worker process: its context, arq's worker and pool, logs, metrics, and the supervisor of several."""

from match_ratings_worker.runtime.arq_pool import arq_pool
from match_ratings_worker.runtime.arq_worker import GracefulWorker
from match_ratings_worker.runtime.log_setup import configure_logging
from match_ratings_worker.runtime.process_supervisor import WorkersKeepEnding, supervise
from match_ratings_worker.runtime.stop_signals import stop_signals, stop_with_supervisor
from match_ratings_worker.runtime.worker_context import WorkerContext, retry_while_unavailable

__all__ = [
    "GracefulWorker",
    "WorkerContext",
    "WorkersKeepEnding",
    "arq_pool",
    "configure_logging",
    "retry_while_unavailable",
    "stop_signals",
    "stop_with_supervisor",
    "supervise",
]
