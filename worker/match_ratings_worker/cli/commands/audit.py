"""`audit`: replay the ledger and compare what comes out with what is stored."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from match_ratings_worker.cli.commands.archive import archived
from match_ratings_worker.cli.console import format_time, print_heading, print_json, print_note
from match_ratings_worker.cli.exit_codes import ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.redis_errors import run
from match_ratings_worker.text import printable

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.audit import Report

__all__ = ["audit"]


def audit(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Rebuild leaderboard, windows and open periods where they differ; never ratings."
        ),
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Replay a ladder's ledger from the start and print each difference from what is stored.

    Every event is computed again from its own figures, and follows from the one before; ratings,
    sequences, games, windows and leaderboard of every player are compared, and receipts and counts
    checked. Workers may run meanwhile. Exit code 1 when something differs that was not repaired. The
    first 100 differences are printed, all are counted.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)

    async def act(redis: Redis) -> Report:
        from match_ratings_worker.audit import audit

        with archived(site, chosen.name) as shelf, progress_bar() as tell:
            return await audit(
                redis,
                keys,
                chosen.name,
                chosen.system,
                horizon=site.settings.horizon_ms,
                archive=shelf.iterate if shelf else None,
                repair=repair,
                progress=tell,
            )

    report = run(site.settings.redis_url, act)
    if json:
        print_json(_document(report, chosen.name))
    else:
        _print(report, chosen.name, repair=repair)
    if report.left:
        raise typer.Exit(ExitCode.FAILED)


def _print(report: Report, ladder: str, *, repair: bool) -> None:
    for difference in report.first:
        print(_line(difference.text))
    if report.total > len(report.first):
        print(f"... and {report.total - len(report.first)} more")
    print_heading(f"ladder {ladder}: {report.events} events, {report.players} players; {_vouched(report)}")
    if not report.total:
        print_heading("nothing differs")
        return
    kinds = ", ".join(f"{kind.value} {count}" for kind, count in report.counts.most_common())
    print_heading(f"differences: {report.total} ({kinds})")
    if repair:
        players = f"{report.repaired} {'player' if report.repaired == 1 else 'players'}"
        print_heading(f"repaired: {report.settled}, of {players}; ratings are never changed")
    elif any(difference.repairable for difference in report.first):
        print_note("leaderboard, windows and open periods can be rebuilt with --repair")


def _line(text: str) -> str:

    return str(printable(text))


def _vouched(report: Report) -> str:
    """From when on the audit can vouch for what is stored."""
    if report.since is None:
        return "the ledger is empty" if report.whole else f"{report.unvouched} more without an event"
    if report.whole:
        return "vouched for from the start"
    parts = []
    if report.partly:
        parts.append(f"{report.partly} of them only from their first change that is kept")
    if report.unvouched:
        parts.append(f"{report.unvouched} more have no event that is kept")
    if report.voids_unvouched:
        parts.append(f"{report.voids_unvouched} matches taken back are no longer kept")
    return f"vouched for from {format_time(report.since)} on: {', '.join(parts)}"


def _document(report: Report, ladder: str) -> dict[str, Any]:
    return {
        "ladder": ladder,
        "events": report.events,
        "players": report.players,
        "receipts": report.receipts,
        "whole": report.whole,
        "since": report.since,
        "partly_known": report.partly,
        "not_known": report.unvouched,
        "voids_not_known": report.voids_unvouched,
        "differences": report.total,
        "by_kind": {kind.value: count for kind, count in report.counts.items()},
        "repaired_players": report.repaired,
        "repaired": report.settled,
        "left": report.left,
        "first": [asdict(difference) for difference in report.first],
    }
