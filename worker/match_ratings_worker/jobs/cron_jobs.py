"""The jobs that arq runs once a minute."""

from __future__ import annotations

from typing import Any

from match_ratings_worker.environment_variables import ladder_handle
from match_ratings_worker.pipeline import close_and_log
from match_ratings_worker.runtime import WorkerContext


async def trim_ledgers(ctx: dict[str, Any]) -> None:
    """Trim each ledger by age; with an archive the worker that has the file does it, after archiving."""
    context: WorkerContext = ctx["worker"]
    if context.archiver.archive is None:
        for ladder in context.ladders:
            await context.archiver.run_and_log(ladder, context.keys(ladder))


async def close_periods(ctx: dict[str, Any]) -> None:
    """Close the rating periods that are over, by each ladder's adopted settings."""
    context: WorkerContext = ctx["worker"]
    for ladder in context.ladders.values():
        await close_and_log(ladder_handle(context.redis, context.settings, ladder))
