"""`preview`: show the rating changes of every outcome of a match before it is played."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from match_ratings.messages import CUBES
from match_ratings_worker.calculators import (
    LENGTHS,
    MatchPlayers,
    PreviewRow,
    PreviewSide,
    read_match_players,
)
from match_ratings_worker.calculators import preview as calculate
from match_ratings_worker.cli.calculator_input import (
    AtOption,
    FigureOption,
    KOption,
    RulesOption,
    SetOption,
    SystemOption,
    apply_settings,
    choose_system,
    parse_figures,
    player_state,
)
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode, refuse
from match_ratings_worker.cli.parameters import checked_id, parse_numbers, time_or_now
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.rating import Game, InvalidGame, RatingSystem, State
from match_ratings_worker.rating.hypothetical_event import event_of
from match_ratings_worker.storage import LadderHandle

_RESULTS: Final = ("win", "draw", "loss")


def preview(
    rating: Annotated[str | None, typer.Option("--rating", metavar="R", help="The player's rating.")] = None,
    opponent: Annotated[
        str | None,
        typer.Option(
            "--opponent",
            metavar="R[,R...]|ID",
            help="The opponent's rating, or several; with --player the opponent's id.",
        ),
    ] = None,
    player: Annotated[
        str | None,
        typer.Option("--player", metavar="ID", help="A player of the ladder, with the rating of now."),
    ] = None,
    system: SystemOption = None,
    ladder: LadderOption = None,
    recent_games: Annotated[
        str | None,
        typer.Option("--recent-games", metavar="A[,B]", help="Ranked games in the 7 days before, of each."),
    ] = None,
    rd: Annotated[
        str | None, typer.Option("--rd", metavar="A[,B]", help="The rating deviation of each.")
    ] = None,
    figures: FigureOption = None,
    k: KOption = None,
    settings: SetOption = None,
    rules: RulesOption = None,
    at: AtOption = None,
    cubes: Annotated[
        str | None, typer.Option("--cube", metavar="N[,N...]", help="Only these values of the cube.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option("--length", metavar="N[,N...]", help="Only these match lengths, in points.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="RESULT", help="Show the formula for a win, draw or loss."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print both players' rating changes for win, draw and loss, at each cube value or match length.

    Give two ratings (--rating, --opponent) or two players of the ladder (--player, --opponent). For
    systems that rate by period, the changes are those of the only game of a period.
    """
    moment = time_or_now("--at", at)
    if opponent is None or (rating is None) == (player is None):
        raise CommandError(
            "--rating or --player, and --opponent: two of them are required", ExitCode.WRONG_INPUT
        )
    if explain is not None and explain not in _RESULTS:
        refuse("--explain", explain, f"use one of {', '.join(_RESULTS)}")
    chosen_settings = [*(settings or ()), *([f"k={k}"] if k is not None else [])]
    options = {"recent_games": recent_games, "rd": rd}
    if player is not None:
        if rating is not None or system is not None or figures or recent_games or rd:
            raise CommandError(
                "--player: ratings and figures come from the ladder; give none", ExitCode.WRONG_INPUT
            )
        used, pairs = _from_ladder(player, opponent, ladder, chosen_settings, moment)
    else:
        used = choose_system(system, ladder, chosen_settings, rules, moment)
        own, other = parse_figures(used, figures or (), options)
        ratings = parse_numbers("--opponent", opponent)
        first = player_state(used, parse_numbers("--rating", rating or "")[0], own, moment)
        recent = (int(own.get("recent_games", 0)), int(other.get("recent_games", 0)))
        pairs = [(first, player_state(used, value, other, moment), recent) for value in ratings]
    cube, length = _whole_numbers("--cube", cubes), _whole_numbers("--length", lengths)
    if explain is not None:
        _explain(used, pairs, explain, moment, cube, length, json=json)
    else:
        _show(used, pairs, moment, cube, length, json=json)


def _whole_numbers(option: str, text: str | None) -> list[int] | None:
    return [int(value) for value in parse_numbers(option, text, low=1, whole=True)] if text else None


#: The states of both players, and their ranked games in the 7 days before.
Pair = tuple[State, State, tuple[int, int]]


def _from_ladder(
    player: str, opponent: str, ladder: str | None, settings: list[str], at: int
) -> tuple[RatingSystem, list[Pair]]:
    """The ladder's system, with the settings applied, and its two players as stored."""
    site = load_installation()
    names = checked_id("--player", player), checked_id("--opponent", opponent)
    if names[0] == names[1]:
        raise CommandError(
            "--opponent: it is the player; a match has two different ones", ExitCode.WRONG_INPUT
        )

    async def read(handle: LadderHandle) -> tuple[str, MatchPlayers]:
        return handle.name, await read_match_players(handle, names, at)

    name, (system, found, new) = run_on_ladder(site, ladder, read)
    for player_id in new:
        print_note(f"player {player_id} is not known on ladder {name}; treated as a new player")
    (first, one), (second, two) = found
    return apply_settings(system, settings), [(first, second, (one, two))]


def _rows(
    system: RatingSystem, pair: Pair, at: int, cubes: list[int] | None, lengths: list[int] | None
) -> list[PreviewRow]:
    first, second, recent = pair
    try:
        return calculate(
            system,
            (first, second),
            at=at,
            cubes=cubes or CUBES,
            lengths=lengths or LENGTHS,
            recent_games=recent,
        )
    except ValueError as error:
        raise CommandError(f"{error}", ExitCode.WRONG_INPUT) from None


def _show(
    system: RatingSystem,
    pairs: list[Pair],
    at: int,
    cubes: list[int] | None,
    lengths: list[int] | None,
    *,
    json: bool,
) -> None:
    tables = [(pair, _rows(system, pair, at, cubes, lengths)) for pair in pairs]
    rules = system.rules_at(at)
    if json:
        for (_, second, _), rows in tables:
            for row in rows:
                head = {"system": system.name, "rules": rules, "opponent": second.rating}
                print_json({**head, **asdict(row)})
        return
    about = f"{system.name}, rules {rules}"
    if len(pairs) == 1:
        about += f": {format_number(pairs[0][0].rating)} against {format_number(pairs[0][1].rating)}"
    print_heading(about)
    for title, side in (("the player", "first"), ("the opponent", "second")):
        print()
        print_heading(title)
        results = [result for result in _RESULTS if system.draws or result != "draw"]
        own = results if side == "first" else results[::-1]
        columns = [Column("opponent", right=True)] if len(pairs) > 1 else []
        columns += [Column(name, right=True) for name in ("cube", "length") if name in system.depends_on]
        columns += [Column("expected", right=True), Column("K", right=True)]
        for result in results:
            columns += [Column(result, right=True), Column("rating", right=True, style="bold")]
        sheet = Table(*columns)
        for (_, second, _), rows in tables:
            grouped: dict[tuple[int | None, int | None], dict[str, PreviewSide]] = {}
            for row in rows:
                found: PreviewSide = getattr(row, side)
                grouped.setdefault((row.cube, row.length), {})[row.result] = found
            for (cube, length), outcomes in grouped.items():
                cells = [format_number(second.rating)] if len(pairs) > 1 else []
                cells += [str(value) for value in (cube, length) if value is not None]
                any_side = outcomes["win"]
                cells += [f"{any_side.expected:.4f}", format_number(any_side.k)]
                for result in own:
                    cells += [format_change(outcomes[result].change), format_number(outcomes[result].after)]
                sheet.add([cells])


def _explain(
    system: RatingSystem,
    pairs: list[Pair],
    result: str,
    at: int,
    cubes: list[int] | None,
    lengths: list[int] | None,
    *,
    json: bool,
) -> None:
    """Print the formula of one result, for each pair, at the first cube value or length."""
    scores = {"win": (1.0, 0.0), "draw": (0.5, 0.5), "loss": (0.0, 1.0)}[result]
    length = (lengths or [1])[0] if "length" in system.depends_on else None
    for first, second, recent in pairs:
        game = Game(at, scores, recent, (cubes or [1])[0], length)
        try:
            outcome = system.preview(first, second, game)
        except InvalidGame as error:
            raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
        event = event_of(system, (first, second), game, outcome=outcome, names=("player", "opponent"))
        steps = list(system.explain(event))
        if json:
            document = event.model_dump(mode="json", exclude_none=True, exclude={"match_id", "ladder"})
            print_json({"event": document, "steps": [asdict(step) for step in steps]})
            continue
        print_heading(
            f"{system.name}, rules {outcome.rules}: a {result} against {format_number(second.rating)}"
        )
        sheet = Table(
            Column("step"), Column("formula"), Column("result", right=True, style="bold"), Column("player")
        )
        sheet.add((step.label, step.formula, step.result, step.player or "both") for step in steps)
