"""The entry point for arq: `arq match_ratings_worker.settings.WorkerSettings`."""

from __future__ import annotations

from typing import Any

__all__ = ["WorkerSettings"]

WorkerSettings: type[Any]


def __getattr__(name: str) -> Any:
    # Created on first access, since it reads the environment and opens connections.
    if name == "WorkerSettings":
        from match_ratings_worker.jobs.arq_worker_settings import worker_settings

        return worker_settings()
    raise AttributeError(name)
