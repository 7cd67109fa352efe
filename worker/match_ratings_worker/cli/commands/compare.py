"""`compare`: where another rater's changes and this one's disagree."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.commands.archive import archived
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
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.parameters import integer_option, parse_time
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.ledger.read_ledger import Ledger
    from match_ratings_worker.migration.compare_raters import Comparison, Result, Side

__all__ = ["compare"]

#: Lines or events between two movements of a progress bar.
_PAGE = 1000
_DIFFERENT = 1


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
    top: Annotated[
        int,
        integer_option("--top", 0, 10_000, help="How many to name."),
    ] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Compare another rater's changes with those of the ladder's shadow, by match and player.

    On each line: match_id, player, change, after; and if known before and finished_at. Both sides'
    figures are shown for the largest differences, and how far players' ratings have come apart. Figures
    are equal when they are the same; in systems of decimals, up to a millionth of a point. Exit code 1
    if there are differences. TIME is such as 2026-11-29T12:00:00Z, 2026-11-29 (UTC) or 7d; lines
    without finished_at are taken in any case.
    """
    site = load_installation()
    chosen = site.ladder(ladder)
    if tolerance is None:
        tolerance = 0.0 if chosen.system.integer_ratings else 1e-6
    if not 0 <= tolerance <= 1000:
        raise CommandError(
            f"--tolerance: {tolerance:g} is not allowed; use 0 to 1000 points", ExitCode.WRONG_INPUT
        )

    async def act(redis: Redis) -> Result:
        from match_ratings_worker.ledger.read_ledger import Ledger
        from match_ratings_worker.migration.compare_raters import Comparison
        from match_ratings_worker.queries import server_time
        from match_ratings_worker.storage.keys import Keys

        now = await server_time(redis, Keys(chosen.name).inbox)
        first = 0 if since is None else parse_time("--since", since, now)
        between = range(first, 2**63 if until is None else parse_time("--until", until, now))
        comparison = Comparison(tolerance=tolerance, top=top)
        with open_input(file) as source:
            await _read(source, comparison, between)
        keys = Keys(chosen.name, shadow=not authoritative)
        with archived(site, chosen.name, wanted=authoritative) as shelf:
            await _meet(Ledger(redis, keys, shelf.iterate if shelf else None), comparison, between)
        return comparison.result()

    result = run(site.settings.redis_url, act)
    if json:
        print_json(
            {"ladder": chosen.name, "ledger": "own" if authoritative else "shadow", **result.document()}
        )
    else:
        _print(result, f"{chosen.name}" if authoritative else f"the shadow of {chosen.name}")
    if not result.same:
        parts = f"{result.different} different, {result.only_old} only old, {result.only_new} only new"
        raise CommandError(f"the raters differ: {parts}", _DIFFERENT)


async def _read(source: InputFile, comparison: Comparison, between: range) -> None:
    from match_ratings_worker.migration.compare_raters import Old, read_old
    from match_ratings_worker.migration.csv_json_lines import json_lines

    def take(raw: bytes) -> Old:
        old = read_old(raw)
        if old.finished_at is None or old.finished_at in between:
            comparison.add(old)
        return old

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


async def _meet(ledger: Ledger, comparison: Comparison, between: range) -> None:
    from match_ratings_worker.migration.compare_raters import read_event

    done, total = 0, await ledger.size()
    with progress_bar() as tell:
        async for page in ledger.pages("0-0"):
            for ledger_id, raw in page:
                event = read_event(ledger_id, raw)
                if event is not None and event.finished_at in between:
                    comparison.meet(event)
            done += len(page)
            tell("Comparing", done, max(done, total))


def _print(result: Result, name: str) -> None:
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
    print_heading(f"Players with matches that both have rated: {result.players}, drifted: {result.drifted}")
    if result.drifts:
        print_fields([("mean drift", f"{result.mean_drift:.2f} points")])
        sheet = Table(
            Column("old", right=True),
            Column("new", right=True),
            Column("drift", right=True, style="bold"),
            Column("player"),
            Column("first other change"),
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


def _print_differences(result: Result) -> None:
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

    def figures(side: Side) -> tuple[str, str, str]:
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
