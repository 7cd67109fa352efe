"""Options of the calculators: choose a system and its settings; parse the figures of players."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import loads
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from match_ratings_worker.evaluation import BackgammonVariant
from match_ratings_worker.rating import SYSTEMS, BrokenSystem, Number, RatingSystem, State
from match_ratings_worker.safe_text import describe_problem, dotted, quote
from match_ratings_worker.time_units import DAY_MS

from .configured_ladders import load_installation
from .exit_codes import CommandError, ExitCode, refuse
from .parameters import parse_numbers

SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="A rating system with its default settings (see match-ratings systems) instead of the ladder's.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the system; may be repeated."),
]
RulesOption = Annotated[
    str | None,
    typer.Option("--rules", metavar="VERSION", help="The version of the rules, whatever the date."),
]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="When the game finishes; now by default.")
]
KOption = Annotated[str | None, typer.Option("--k", metavar="N", help="The same as --set k=N.")]
FigureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        metavar="NAME=A[,B]",
        help="A figure of the player, and after a comma the opponent's: games, recent_games, idle_days, and "
        "the system's own, such as rd, volatility, experience, peak, birth_year. May be repeated.",
    ),
]

#: Figures that players have in every system.
_COMMON: Final = ("games", "recent_games", "idle_days")


def choose_system(
    name: str | None, ladder: str | None, settings: Sequence[str] = (), rules: str | None = None, at: int = 0
) -> RatingSystem:
    """The system of `--system`, or else the ladder's, with `--set` and `--rules` applied.

    The version of the rules must be in force at `at` (ms).
    """
    if name is None:
        system = load_installation().ladder(ladder).system
    else:
        if ladder is not None:
            raise CommandError(
                "--system: it makes no sense with --ladder, which has a system", ExitCode.WRONG_INPUT
            )
        if name not in SYSTEMS:
            refuse("--system", name, f"use one of {', '.join(SYSTEMS)}")
        try:
            system = SYSTEMS[name]()
        except BrokenSystem as error:
            raise CommandError(f"--system: {error}", ExitCode.WRONG_INPUT) from None
    return _apply_rules(apply_settings(system, settings), rules, at)


def _apply_rules(system: RatingSystem, rules: str | None, at: int) -> RatingSystem:
    if rules is None:
        return system
    if rules not in system.versions:
        refuse("--rules", rules, f"{system.name} has {', '.join(system.versions)}")
    system = system.with_rules(rules)
    if system.rules_at(at) != rules:
        text = f"{system.name}'s rules follow from the date of a game, at that time {system.rules_at(at)}"
        refuse("--rules", rules, f"{text} (see --at)")
    return system


def apply_settings(system: RatingSystem, settings: Sequence[str], *, option: str = "--set") -> RatingSystem:
    """Change settings of a system: NAME=VALUE, the value as JSON or as plain text."""
    if not settings:
        return system

    changed = system.model_dump()
    for text in settings:
        name, found, value = text.partition("=")
        if not found or not name:
            refuse(option, text, "use NAME=VALUE")
        try:
            parsed: Any = loads(value)
        except ValueError:
            parsed = value
        table, dot, inner = name.partition(".")
        if dot and isinstance(changed.get(table), dict):
            changed[table] = {**changed[table], inner: parsed}
        else:
            changed[name] = parsed
    try:
        return type(system).model_validate(changed)
    except ValidationError as error:
        item = error.errors(include_url=False)[0]
        text = describe_problem(item, whole="")
        if item["type"] == "extra_forbidden":
            known = ", ".join(type(system).model_fields)
            text = f"{dotted(item['loc'])} is not a setting of {system.name}; it has {known}"
        raise CommandError(f"{option}: {text}", ExitCode.WRONG_INPUT) from None


def candidate_system(
    ladder_system: RatingSystem, name: str | None, settings: Sequence[str], rules: str | None, at: int
) -> RatingSystem:
    """The system to evaluate: that of `--system`, or else the ladder's, with `--set` and `--rules`.

    For backgammon `--set` also takes the unpublished figures of BackgammonVariant; `at` is in ms.
    """
    system = ladder_system if name is None else choose_system(name, None)
    named = {text.partition("=")[0] for text in settings}
    if system.name == BackgammonVariant.name and named & (
        BackgammonVariant.model_fields.keys() - type(system).model_fields.keys()
    ):
        if rules is not None:
            raise CommandError(
                "--rules: it makes no sense with a divisor or K of --set", ExitCode.WRONG_INPUT
            )
        return apply_settings(BackgammonVariant(start=getattr(system, "start", 1500)), settings)
    return _apply_rules(apply_settings(system, settings), rules, at)


def parse_figures(
    system: RatingSystem, texts: Iterable[str], named: dict[str, str | None]
) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of `--figure`, for the player and for the opponent.

    `named` are the values of the figures that also have an option of their own, such as `--rd`.
    """
    found: tuple[dict[str, float], dict[str, float]] = ({}, {})
    pairs = [("--figure", *text.partition("=")[::2]) for text in texts]
    pairs += [(f"--{name.replace('_', '-')}", name, text) for name, text in named.items() if text is not None]
    for option, name, text in pairs:
        known = (*_COMMON, *system.state_fields)
        if name not in known:
            allowed = f"{system.name} has {', '.join(known)}"
            raise CommandError(
                f"{option}: {quote(name)} is not a figure of a player; {allowed}", ExitCode.WRONG_INPUT
            )
        low = 0.0 if name in _COMMON else None
        whole = name in ("games", "recent_games")
        values = parse_numbers(
            option if option != "--figure" else f"--figure {name}", text, low=low, whole=whole
        )
        if len(values) > 2:
            refuse(option, text, "use one number, or two with a comma between them")
        for own, value in zip(found, values, strict=False):
            own[name] = value
    return found


def player_state(system: RatingSystem, rating: Number, figures: dict[str, float], at: int) -> State:
    """A player with a rating and figures at `at` (ms); other figures are those of a new player."""
    initial = system.initial()
    own = zip(system.state_fields, initial.extra, strict=True)
    idle = figures.get("idle_days")
    return initial._replace(
        rating=int(rating) if system.integer_ratings else float(rating),
        games=int(figures.get("games", 0)),
        last_game=0 if idle is None else at - round(idle * DAY_MS),
        extra=tuple([float(figures.get(name, value)) for name, value in own]),
    )
