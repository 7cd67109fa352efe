"""`calibrate`: compare the scores that were expected with the actual ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from match_ratings_worker.cli.calculator_input import RulesOption, SetOption, SystemOption, candidate_system
from match_ratings_worker.cli.calibration_plot import check_plot_file, draw_calibration
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import Column, Table, print_fields, print_heading, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.match_source import FileArgument, MinGamesOption, load_matches
from match_ratings_worker.cli.parameters import number_option, parse_time
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.evaluation import Bin, Calibration, Prediction, Sample, run_trial
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.time_units import now_ms


def calibrate(
    file: FileArgument = None,
    system: SystemOption = None,
    settings: SetOption = None,
    rules: RulesOption = None,
    min_games: MinGamesOption = 0,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only matches that finished from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only matches that finished before.")
    ] = None,
    width: Annotated[float, number_option("--width", 1, help="Points of a row of the table.")] = 50,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Also draw it: a name ending in .png or .svg."),
    ] = None,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print expected and actual scores by rating gap, log loss, Brier score and the best divisor.

    For a ledger or a file of events, the predictions are those made when the matches were rated. For a
    file of matches, or with --system, --set or --rules, the matches are rated again from the start. The
    intervals are 95 % Wilson intervals.
    """
    if plot is not None:
        check_plot_file(plot)
    site = load_installation()
    chosen = site.ladder(ladder)
    now = now_ms()
    first = 0 if since is None else parse_time("--since", since, now)
    last = 2**62 if until is None else parse_time("--until", until, now)
    with progress_bar() as progress:
        source = load_matches(site, chosen, file, progress)
        used = candidate_system(source.system, system, settings or (), rules, now)
        again = used != source.system or not source.from_events
        predictions: list[Prediction | None] = list(source.predictions)
        if again:
            total, done = len(source.records), 0

            def add(more: int) -> None:
                nonlocal done
                done += more
                progress("Rating", done, total)

            predictions = run_trial(source.records, used, progress=add).predictions
        sample = Sample(
            item
            for item in predictions
            if item is not None and item.games >= min_games and first <= item.finished_at < last
        )
        found = sample.calibration(width=width)
    source.print_notes()
    if found is None:
        raise CommandError(f"ladder {chosen.name}: there are no matches to evaluate", ExitCode.FAILED)
    how = "rated again from the start" if again else "as predicted when they were rated"
    if plot is not None:
        draw_calibration(found, plot, f"{chosen.name}: {found.matches} matches, {used.name}")
    if json:
        document: dict[str, Any] = {"ladder": chosen.name, "system": used.name, "anew": again}
        print_json({**document, "divisor": used.divisor_at(now), **asdict(found)})
        return
    print_heading(f"ladder {chosen.name}: {found.matches} matches, {how} ({used.name})")
    _print(found, used, now)
    if plot is not None:
        print(f"plot: {plot}")


def _print(found: Calibration, system: RatingSystem, now: int) -> None:
    sheet = Table(
        Column("gap"),
        Column("matches", right=True),
        Column("mean gap", right=True),
        Column("expected", right=True),
        Column("actual", right=True, style="bold"),
        Column("95 % interval", right=True),
        Column("favourites win"),
    )
    sheet.add(
        (
            f"{item.low:g}-{item.high:g}" if item.high is not None else f"{item.low:g} and more",
            str(item.matches),
            f"{item.gap:.1f}",
            f"{item.expected:.1%}",
            f"{item.actual:.1%}",
            f"{item.actual_low:.1%}-{item.actual_high:.1%}",
            _compare(item),
        )
        for item in found.bins
    )
    print()
    print_fields(
        [
            ("log loss", f"{found.log_loss:.5f} (0.69315 for 50 % throughout)"),
            ("Brier score", f"{found.brier:.5f}"),
            ("divisor that fits best", format_fit(found)),
            ("divisor now", f"{system.divisor_at(now):g}"),
        ]
    )


def _compare(item: Bin) -> str:
    if item.actual_low <= item.expected <= item.actual_high:
        return "as expected"
    return "less" if item.actual < item.expected else "more"


def format_fit(found: Calibration) -> str:
    """The best divisor and its 95 % interval, in words."""
    if found.fit is None:
        return "none: too few results, or the weaker players win more often"
    high = "any" if found.fit.high is None else f"{found.fit.high:.0f}"
    return f"{found.fit.divisor:.0f} ({found.fit.low:.0f}-{high})"
