"""`status`: backlogs, workers, dead letters, and ladders that no worker reads."""

from __future__ import annotations

from dataclasses import asdict

from redis.asyncio import Redis

from match_ratings import QUEUE
from match_ratings_worker import queries
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_duration,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_with_redis
from match_ratings_worker.environment_variables import ladder_handle
from match_ratings_worker.queries import LadderStatus, UnservedLadder


def status(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print the state of all configured ladders, or of one.

    Without --ladder it also names the ladders that no worker reads, configured here or not.
    """
    site = load_installation()
    chosen = [site.ladder(ladder)] if ladder is not None else list(site.ladders.values())

    async def read(redis: Redis) -> tuple[list[LadderStatus], list[UnservedLadder]]:
        handles = [ladder_handle(redis, site.settings, item) for item in chosen]
        found = [await queries.ladder_status(handle) for handle in handles]
        return found, await queries.unserved_ladders(redis, site.ladders, handles[0].idle_ms)

    async def count_jobs(redis: Redis) -> int:
        return int(await redis.zcard(QUEUE))

    with spinner("Counting"):
        found, unserved = run_with_redis(site.settings.redis_url, read)
        jobs = run_with_redis(site.settings.queue_url, count_jobs)
    if ladder is not None:
        unserved = [item for item in unserved if item.ladder == ladder]
    if json:
        print_json(
            {
                "shadow": site.settings.shadow,
                "ladders": [asdict(item) for item in found],
                "unread": [asdict(item) for item in unserved],
                "jobs_waiting": jobs,
            }
        )
        return
    for item in found:
        _print_ladder(item, shadow=site.settings.shadow)
        print()
    print_fields([("arq jobs waiting", str(jobs))], indent=0)
    for missing in unserved:
        print_heading(f"! {_describe(missing)}")


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


def _describe(item: UnservedLadder) -> str:
    name = (
        f"ladder {item.ladder}" if item.configured else f"ladder {item.ladder}, which is not configured here,"
    )
    never = "was never read by a worker" if item.why == "never-read" else "has no running worker"
    count = f"; {item.messages} messages wait" if item.messages else ""
    return f"{name} {never}{count}"
