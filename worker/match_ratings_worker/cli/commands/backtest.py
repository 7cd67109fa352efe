"""`backtest`: compare a ladder's settings with others on the same matches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from match_ratings_worker.cli.calculator_input import RulesOption, SetOption, SystemOption, candidate_system
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import Column, Table, print_heading, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.match_source import FileArgument, MatchSource, MinGamesOption, load_matches
from match_ratings_worker.cli.parameters import integer_option
from match_ratings_worker.cli.progress import ProgressCallback, progress_bar
from match_ratings_worker.evaluation import Calibration, Trial, most_active, run_trial
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.time_units import now_ms

from .calibrate import format_fit


def backtest(
    file: FileArgument = None,
    system: SystemOption = None,
    settings: SetOption = None,
    rules: RulesOption = None,
    min_games: MinGamesOption = 10,
    most_active_count: Annotated[
        int,
        integer_option("--most-active", 1, help="Players with the most games, whose weekly swing is shown."),
    ] = 20,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Rate the same matches from the start by the ladder's settings and by others, and compare both.

    --system, --set and --rules choose the other settings; for backgammon --set also takes figures that
    were never published: divisor, k, heavy_k, heavy_from. The comparison covers the quality of the
    predictions (over the matches that both predict), the spread of the ratings, and the weekly swing of
    the players with the most games. It runs in memory and writes nothing.
    """
    site = load_installation()
    chosen = site.ladder(ladder)
    now = now_ms()
    if system is None and not settings and rules is None:
        raise CommandError(
            "--system, --set or --rules: one of them is required, to compare with", ExitCode.WRONG_INPUT
        )
    with progress_bar() as progress:
        source = load_matches(site, chosen, file, progress)
        tried = candidate_system(source.system, system, settings or (), rules, now)
        trials = _run(source, tried, most_active_count, progress)
    source.print_notes()
    ours, theirs = trials
    quality = ours.quality(theirs, min_games=min_games), theirs.quality(ours, min_games=min_games)
    if quality[0] is None or quality[1] is None:
        text = "there are no matches that both predict"
        raise CommandError(f"ladder {chosen.name}: {text} (--min-games {min_games})", ExitCode.FAILED)
    advantage = theirs.advantage(ours, min_games=min_games)
    if json:
        print_json(
            {
                "ladder": chosen.name,
                "ladders_settings": _document(ours, quality[0], min_games),
                "tried": _document(theirs, quality[1], min_games),
                "log_loss_change": advantage[0],
                "log_loss_change_interval": [advantage[0] - advantage[1], advantage[0] + advantage[1]],
            }
        )
        return
    print_heading(
        f"ladder {chosen.name}: {quality[0].matches} matches that both predict, rated from the start"
    )
    names = (f"now: {ours.system.name}", f"tried: {_named(source.system, tried)}")
    sheet = Table(Column(""), *(Column(name, right=True) for name in names))
    sheet.add(_rows((ours, theirs), (quality[0], quality[1]), min_games))
    print()
    print_heading(_verdict(*advantage))


def _run(
    source: MatchSource, tried: RatingSystem, most_active_count: int, progress: ProgressCallback
) -> tuple[Trial, Trial]:
    watched, done, total = most_active(source.records, most_active_count), 0, 2 * len(source.records)

    def add(more: int) -> None:
        nonlocal done
        done += more
        progress("Rating", done, total)

    return (
        run_trial(source.records, source.system, watched=watched, progress=add),
        run_trial(source.records, tried, watched=watched, progress=add),
    )


def _named(ours: RatingSystem, tried: RatingSystem) -> str:
    """The name of the tried system, and its settings that differ from the ladder's."""
    usual = ours if type(tried) is type(ours) else type(tried)()
    own = {name: getattr(usual, name) for name in type(tried).model_fields}
    changed = [
        f"{name}={value}" for name in own if (value := getattr(tried, name)) != own[name] and name != "rules"
    ]
    version = f"rules {tried.rules_at(0)}" if getattr(tried, "rules", None) else ""
    return " ".join(filter(None, [tried.name, version, *changed]))


def _rows(
    trials: tuple[Trial, Trial], quality: tuple[Calibration, Calibration], min_games: int
) -> list[list[str]]:
    spreads = [trial.spread(min_games=min_games) for trial in trials]
    swings = [trial.swing for trial in trials]
    shares = [
        f"{swing.mean / spread.deviation:.2f}" if swing and spread and spread.deviation else "-"
        for swing, spread in zip(swings, spreads, strict=True)
    ]
    return [
        ["log loss", *(f"{item.log_loss:.5f}" for item in quality)],
        ["Brier score", *(f"{item.brier:.5f}" for item in quality)],
        ["divisor that fits best", *(format_fit(item) for item in quality)],
        ["matches not rated", *(str(trial.skipped) for trial in trials)],
        ["rated players", *("-" if item is None else str(item.players) for item in spreads)],
        ["standard deviation", *("-" if item is None else f"{item.deviation:.1f}" for item in spreads)],
        ["middle player", *("-" if item is None else f"{item.median:.1f}" for item in spreads)],
        ["5 % to 95 %", *("-" if item is None else f"{item.low:.0f}-{item.high:.0f}" for item in spreads)],
        ["swing in a week, mean", *("-" if item is None else f"{item.mean:.1f}" for item in swings)],
        ["swing in a week, largest", *("-" if item is None else f"{item.largest:.1f}" for item in swings)],
        ["mean swing / deviation", *shares],
    ]


def _document(trial: Trial, quality: Calibration, min_games: int) -> dict[str, Any]:
    spread, swing = trial.spread(min_games=min_games), trial.swing
    return {
        "system": trial.system.name,
        "settings": trial.system.model_dump(mode="json"),
        "skipped": trial.skipped,
        "quality": asdict(quality),
        "spread": None if spread is None else asdict(spread),
        "swing": None if swing is None else asdict(swing),
    }


def _verdict(change: float, margin: float) -> str:
    if abs(change) <= margin:
        verdict = "no difference that these matches show"
    else:
        verdict = f"what was tried predicts {'better' if change < 0 else 'worse'}"
    return f"log loss changes by {change:+.5f} +- {margin:.5f} (95 %): {verdict}"
