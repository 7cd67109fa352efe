"""`status`: what waits, who works, what was not rated, and what nobody reads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_duration,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.queries import LadderStatus, UnservedLadder

__all__ = ["status"]


def status(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print the state of all configured ladders, or of one.

    Without --ladder it also names the ladders that no worker reads, in this configuration or not.
    """
    site = load_installation()
    chosen = [site.ladder(ladder)] if ladder is not None else list(site.ladders.values())
    idle = int(site.settings.idle_seconds * 1000)

    async def look(redis: Redis) -> tuple[list[LadderStatus], list[UnservedLadder]]:
        from match_ratings_worker import queries

        found = [
            await queries.ladder_status(redis, item.name, item.system.name, idle, shadow=site.settings.shadow)
            for item in chosen
        ]
        return found, await queries.unserved_ladders(redis, site.ladders, idle)

    async def count_jobs(redis: Redis) -> int:
        from match_ratings import QUEUE

        return int(await redis.zcard(QUEUE))

    with spinner("Counting"):
        found, unread = run(site.settings.redis_url, look)
        jobs = run(site.settings.queue_url, count_jobs)
    if ladder is not None:
        unread = [item for item in unread if item.ladder == ladder]
    if json:
        print_json(
            {
                "shadow": site.settings.shadow,
                "ladders": [asdict(item) for item in found],
                "unread": [asdict(item) for item in unread],
                "jobs_waiting": jobs,
            }
        )
        return
    for item in found:
        _print_ladder(item, shadow=site.settings.shadow)
        print()
    print_fields([("arq jobs waiting", str(jobs))], indent=0)
    for gone in unread:
        print_heading(f"! {_sentence(gone)}")


def _print_ladder(item: LadderStatus, *, shadow: bool) -> None:
    print_heading(f"{item.ladder}{', its shadow' if shadow else ''} (system {item.system})")
    live = sum(worker.live for worker in item.workers)
    waiting = f"{item.backlog}, {item.claimed} of them claimed" if item.backlog else "0"
    print_fields(
        [
            ("backlog", waiting),
            ("oldest waiting", format_duration(item.oldest_waiting_ms)),
            ("workers", str(live)),
            ("dead letters", _tally(item.dead_letters, item.dead_by_reason)),
            ("players", str(item.players)),
            ("events kept", str(item.events)),
            ("since the start", _tally(None, item.counts)),
        ]
    )
    if item.workers:
        titles = ("pending", "busy", "silent for")
        sheet = Table(Column("  worker"), *(Column(title, right=True) for title in titles), Column(""))
        sheet.add(
            (
                f"  {worker.name}",
                str(worker.pending),
                "-" if worker.busy is None else f"{worker.busy:.0%}",
                format_duration(worker.idle_ms),
                "" if worker.live else "gone",
            )
            for worker in item.workers
        )


def _tally(total: int | None, parts: dict[str, int]) -> str:
    text = ", ".join(f"{name} {count}" for name, count in parts.items())
    if total is None:
        return text or "-"
    return f"{total} ({text})" if text else str(total)


def _sentence(gone: UnservedLadder) -> str:
    name = (
        f"ladder {gone.ladder}" if gone.configured else f"ladder {gone.ladder}, which is not configured here,"
    )
    never = "was never read by a worker" if gone.why == "never-read" else "has no running worker"
    count = f"; {gone.messages} messages wait" if gone.messages else ""
    return f"{name} {never}{count}"
