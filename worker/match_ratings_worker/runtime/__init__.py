"""One worker process: its context, arq's worker and pool, logs, metrics, and the supervisor of several."""

from .arq_pool import arq_pool
from .arq_worker import GracefulWorker
from .log_setup import configure_logging
from .process_supervisor import WorkersKeepEnding, supervise
from .stop_signals import stop_signals, stop_with_supervisor
from .worker_context import WorkerContext, retry_while_unavailable

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
