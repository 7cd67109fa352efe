"""`compare`: the differences between another rater's changes and these."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InputFile, InvalidLines, open_input
from match_ratings_worker.cli.parameters import integer_option, parse_time
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.ledger import Ledger, open_ledger, parse_event
from match_ratings_worker.migration import (
    Comparison,
    ComparisonResult,
    RatedChange,
    ReferenceChange,
    json_lines,
    read_reference_change,
)
from match_ratings_worker.queries import server_time
from match_ratings_worker.storage import LadderHandle

#: Lines between two updates of the progress bar.
_PAGE = 1000


def compare(
    file: Annotated[
        str,
        typer.Argument(metavar="OLD", help="The other rater's changes as JSON lines; - for standard input."),
    ],
    authoritative: Annotated[
        bool, typer.Option("--authoritative", help="With the ladder's own ledger, not its shadow's.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only matches that finished at this time or later."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only matches that finished before.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", metavar="POINTS", help="How far apart figures count as equal."),
    ] = None,
    top: Annotated[int, integer_option("--top", 0, 10_000, help="How many to name.")] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Compare another rater's changes with those of the ladder's shadow, by match and player.

    Each line has match_id, player, change, after; and if known before and finished_at. The output shows
    both sides of the largest differences, and how far apart the players' ratings are. Figures count as
    equal when they are identical; in systems with decimals, within a millionth of a point. Exit code 1
    if there are differences. TIME is such as 2026-11-29T12:00:00Z, 2026-11-29 (UTC) or 7d; lines
    without finished_at are always compared.
    """
    site = load_installation()
    chosen = site.ladder(ladder)
    if tolerance is None:
        tolerance = 0.0 if chosen.system.integer_ratings else 1e-6
    if not 0 <= tolerance <= 1000:
        text = f"--tolerance: {tolerance:g} is not allowed; use 0 to 1000 points"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    comparison = Comparison(tolerance=tolerance, top=top)

    async def act(handle: LadderHandle) -> ComparisonResult:
        handle = replace(handle, shadow=not authoritative)
        now = await server_time(handle.redis, handle.keys.inbox)
        first = 0 if since is None else parse_time("--since", since, now)
        between = range(first, 2**63 if until is None else parse_time("--until", until, now))
        with open_input(file) as source:
            await _read_reference(source, comparison, between)
        with open_ledger(handle) as ledger:
            await _compare_ledger(ledger, comparison, between)
        return comparison.result()

    result = run_on_ladder(site, chosen.name, act)
    if json:
        side = "own" if authoritative else "shadow"
        print_json({"ladder": chosen.name, "ledger": side, **result.document()})
    else:
        _print(result, f"{chosen.name}" if authoritative else f"the shadow of {chosen.name}")
    if not result.same:
        parts = f"{result.different} different, {result.only_old} only old, {result.only_new} only new"
        raise CommandError(f"the raters differ: {parts}", ExitCode.FAILED)


async def _read_reference(source: InputFile, comparison: Comparison, between: range) -> None:
    def take(raw: bytes) -> ReferenceChange:
        change = read_reference_change(raw)
        if change.finished_at is None or change.finished_at in between:
            comparison.add(change)
        return change

    wrong, lines = InvalidLines(), 0
    with progress_bar(in_bytes=True) as progress:
        for line in json_lines(source.file, take):
            lines += 1
            if line.value is None:
                wrong.add(line.number, line.problem)
            if lines % _PAGE == 0:
                progress("Reading", line.read, source.size)
                await asyncio.sleep(0)  # for Ctrl-C
    wrong.refuse(lines, "nothing was compared")


async def _compare_ledger(ledger: Ledger, comparison: Comparison, between: range) -> None:
    done, total = 0, await ledger.size()
    with progress_bar() as progress:
        async for page in ledger.pages():
            for ledger_id, raw in page:
                event = parse_event(ledger_id, raw)
                if event is not None and event.finished_at in between:
                    comparison.compare(event)
            done += len(page)
            progress("Comparing", done, max(done, total))


def _print(result: ComparisonResult, name: str) -> None:
    print_heading(f"The old rater and {name}, change by change (two to a match)")
    different = str(result.different)
    if result.different:
        different += f", {result.change_differs} of them in the change itself"
    print_fields(
        [
            ("equal", str(result.equal)),
            ("different", different),
            ("only old", _some(result.only_old, result.some_only_old)),
            ("only new", _some(result.only_new, result.some_only_new)),
        ]
    )
    if result.largest:
        print()
        print_heading("Largest differences")
        _print_differences(result)
    print()
    print_heading(f"Players with matches that both rated: {result.players}, drifted: {result.drifted}")
    if result.drifts:
        print_fields([("mean drift", f"{result.mean_drift:.2f} points")])
        sheet = Table(
            Column("old", right=True),
            Column("new", right=True),
            Column("drift", right=True, style="bold"),
            Column("player"),
            Column("first different change"),
        )
        sheet.add(
            (
                format_number(one.old),
                format_number(one.new),
                format_change(one.drift),
                one.player,
                one.since or "-",
            )
            for one in result.drifts
        )


def _some(count: int, some: list[tuple[str, str]]) -> str:
    if not count:
        return "0"
    named = ", ".join(f"{match} ({player})" for match, player in some[:3])
    return f"{count}: {named}" + (", ..." if count > len(some[:3]) else "") if named else str(count)


def _print_differences(result: ComparisonResult) -> None:
    sheet = Table(
        Column("old before", right=True),
        Column("change", right=True, style="bold"),
        Column("after", right=True),
        Column("new before", right=True),
        Column("change", right=True, style="bold"),
        Column("after", right=True),
        Column("K", right=True),
        Column("expected", right=True),
        Column("games in 7 days", right=True),
        Column("match"),
        Column("player"),
    )

    def figures(side: RatedChange) -> tuple[str, str, str]:
        return format_number(side.before), format_change(side.change), format_number(side.after)

    sheet.add(
        (
            *figures(one.old),
            *figures(one.new),
            format_number(one.new.k),
            "-" if one.new.expected is None else f"{one.new.expected:.4f}",
            "-" if one.new.recent_games is None else str(one.new.recent_games),
            one.match_id,
            one.player,
        )
        for one in result.largest
    )
