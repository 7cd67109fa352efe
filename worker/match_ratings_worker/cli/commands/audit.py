"""`audit`: replay the ledger and compare the result with the stored data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from match_ratings_worker.audit import AuditReport, audit_ladder
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import format_time, print_heading, print_json
from match_ratings_worker.cli.exit_codes import ExitCode
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.ledger import open_ledger
from match_ratings_worker.safe_text import printable
from match_ratings_worker.storage import LadderHandle


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
    """Replay a ladder's ledger from the start and print each difference from the stored data.

    Every event is recomputed from its own figures and checked against the one before. Ratings,
    sequences, games, windows and leaderboard scores of all players are compared, and receipts and
    counts checked. Workers may run at the same time. Exit code 1 when differences remain. The first 100
    are printed, all are counted.
    """
    site = load_installation()
    name = site.ladder(ladder).name

    async def act(handle: LadderHandle) -> AuditReport:
        with open_ledger(handle) as ledger, progress_bar() as progress:
            return await audit_ladder(ledger, repair=repair, progress=progress)

    report = run_on_ladder(site, ladder, act)
    if json:
        print_json(_document(report, name))
    else:
        _print(report, name, repair=repair)
    if report.remaining:
        raise typer.Exit(ExitCode.FAILED)


def _print(report: AuditReport, ladder: str, *, repair: bool) -> None:
    for difference in report.first:
        print(printable(difference.text))
    if report.total > len(report.first):
        print(f"... and {report.total - len(report.first)} more")
    print_heading(f"ladder {ladder}: {report.events} events, {report.players} players; {_extent(report)}")
    if not report.total:
        print_heading("no differences")
        return
    kinds = ", ".join(f"{kind.value} {count}" for kind, count in report.counts.most_common())
    print_heading(f"differences: {report.total} ({kinds})")
    if repair:
        players = f"{report.repaired_players} {'player' if report.repaired_players == 1 else 'players'}"
        print_heading(f"repaired: {report.repaired}, of {players}; ratings are never changed")
    elif any(difference.repairable for difference in report.first):
        print_note("leaderboard, windows and open periods can be rebuilt with --repair")


def _extent(report: AuditReport) -> str:
    """From when on the stored data were verified, and what could not be."""
    if report.since is None:
        return "the ledger is empty" if report.complete else f"{report.unverifiable} more without an event"
    if report.complete:
        return "verified from the start"
    parts = []
    if report.partial:
        parts.append(f"{report.partial} of them only from their first change that is kept")
    if report.unverifiable:
        parts.append(f"{report.unverifiable} more have no event that is kept")
    if report.unverifiable_voids:
        parts.append(f"{report.unverifiable_voids} voided matches are no longer kept")
    return f"verified from {format_time(report.since)} on: {', '.join(parts)}"


def _document(report: AuditReport, ladder: str) -> dict[str, Any]:
    return {
        "ladder": ladder,
        "events": report.events,
        "players": report.players,
        "receipts": report.receipts,
        "whole": report.complete,
        "since": report.since,
        "partly_known": report.partial,
        "not_known": report.unverifiable,
        "voids_not_known": report.unverifiable_voids,
        "differences": report.total,
        "by_kind": {kind.value: count for kind, count in report.counts.items()},
        "repaired_players": report.repaired_players,
        "repaired": report.repaired,
        "left": report.remaining,
        "first": [asdict(difference) for difference in report.first],
    }
