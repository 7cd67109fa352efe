"""`period`: rate a list of games, and show each step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from match_ratings_worker.calculators import GameLine, GameListSummary, rate_game_list
from match_ratings_worker.cli.calculator_input import (
    AtOption,
    FigureOption,
    KOption,
    RulesOption,
    SetOption,
    SystemOption,
    choose_system,
    parse_figures,
    player_state,
)
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption
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
from match_ratings_worker.cli.game_list_input import read_games
from match_ratings_worker.cli.parameters import parse_number, time_or_now
from match_ratings_worker.rating.fide import NEW_GAMES


def period(
    rating: Annotated[
        str,
        typer.Option(
            "--rating", metavar="R", help="The player's rating before the games; FIDE: 0 for unrated."
        ),
    ],
    games: Annotated[
        list[str] | None,
        typer.Argument(metavar="GAME", help="OPPONENT[/RD]:SCORE[@N]; @N is a cube or a match length."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Games as CSV or JSON lines; - for standard input."),
    ] = None,
    system: SystemOption = None,
    ladder: LadderOption = None,
    rd: Annotated[str | None, typer.Option("--rd", metavar="N", help="The player's RD.")] = None,
    figures: FigureOption = None,
    k: KOption = None,
    settings: SetOption = None,
    rules: RulesOption = None,
    at: AtOption = None,
    json: JsonOption = False,
) -> None:
    """Rate a list of games for one player, and print each game and each step.

    FIDE: one period by the K, 400-point and 700 rules, rounded once, or an unrated player's first
    rating. Glicko and Glicko-2: one period as in the papers. Other systems: one game after another.
    """
    moment = time_or_now("--at", at)
    chosen = [*(settings or ()), *([f"k={k}"] if k is not None else [])]
    used = choose_system(system, ladder, chosen, rules, moment)
    own, other = parse_figures(used, figures or (), {"rd": rd})
    if other:
        raise CommandError(
            "--figure: a second number is not allowed; the opponents' come with the games",
            ExitCode.WRONG_INPUT,
        )
    if used.name == "fide":
        own = {"games": NEW_GAMES, **own}  # a new player only if --figure says so
    played = read_games(games or (), file)
    state = player_state(used, parse_number("--rating", rating), own, moment)
    try:
        found = rate_game_list(used, state, played, at=moment, recent_games=int(own.get("recent_games", 0)))
    except ValueError as error:
        raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
    if json:
        print_json(asdict(found))
        return
    _print_summary(found)


def _print_summary(found: GameListSummary) -> None:
    how = "together" if found.together else "one after another"
    print_heading(f"{found.system}: {len(found.games)} games rated {how}")
    if found.games:
        _print_games(found)
    print()
    pairs = [("before", format_number(found.before) if found.before else "unrated")]
    pairs += [(f"{name} before", f"{value:g}") for name, value in found.fields_before.items()]
    if found.k_by_rules is not None:
        pairs += [("K", f"{found.k_by_rules} by the rules, {found.k} by the 700 rule")]
    if found.exact is not None:
        pairs.append(("change", f"{found.exact:+.9g}, rounded {format_change(found.change)}"))
    else:
        pairs.append(("change", format_change(found.change)))
    pairs.append(("after", format_number(found.after) if found.after is not None else "unrated"))
    pairs += [(f"{name} after", f"{value:.8g}") for name, value in found.fields_after.items()]
    print_fields(pairs)
    print()
    sheet = Table(Column("step"), Column("formula"), Column("result", right=True, style="bold"))
    sheet.add((step.label, step.formula, step.result) for step in found.steps)


def _print_games(found: GameListSummary) -> None:
    rows = [_cells(line) for line in found.games]
    used = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    sheet = Table(*(Column(name, right=True) for name in used))
    sheet.add([row[name] or "-" for name in used] for row in rows)


def _cells(line: GameLine) -> dict[str, str | None]:
    return {
        "opponent": format_number(line.opponent),
        "RD": None if line.rd is None else format_number(line.rd),
        "cube": None if line.cube is None else str(line.cube),
        "length": None if line.length is None else str(line.length),
        "score": f"{line.score:g}",
        "expected": None if line.expected is None else f"{line.expected:.4f}",
        "gain": None if line.gain is None else f"{line.gain:+.4f}",
        "K": None if line.k is None else format_number(line.k),
        "change": None if line.change is None else format_change(line.change),
        "rating": None if line.after is None else format_number(line.after),
    }
