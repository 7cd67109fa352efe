"""Rate a list of games in any system: together if the system has periods, else one after another.

Glicko and Glicko-2 are computed as their papers do, without a ladder's bounds; RDs are those at the
period's start. Pure; wrong input raises ValueError with the field and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import NamedTuple

from match_ratings_worker.rating import Game, Number, Opponent, RatingSystem, State, Step, glicko, glicko2
from match_ratings_worker.rating.fide import Fide, FidePeriodState
from match_ratings_worker.rating.glicko import Glicko
from match_ratings_worker.rating.glicko2 import SCALE, Glicko2, Rated
from match_ratings_worker.rating.hypothetical_event import event_of

from .fide_period import FidePlayer, period


class Played(NamedTuple):
    """A game of the list: the opponent's rating, the score 1, 0.5 or 0, and what other systems need."""

    opponent: Number
    score: float
    #: The opponent's RD, in points.
    rd: float | None = None
    cube: int = 1
    length: int | None = None


@dataclass(frozen=True, slots=True)
class GameLine:
    """A game and its result; None for what the system does not have."""

    opponent: Number
    score: float
    rd: float | None
    cube: int | None
    length: int | None
    expected: float | None
    #: score - expected, with Glicko's weight g(RD).
    gain: float | None
    k: Number | None = None
    change: Number | None = None
    #: The rating after it, where games are rated one after another.
    after: Number | None = None


@dataclass(frozen=True, slots=True)
class GameListSummary:
    """The result of a list of games."""

    system: str
    #: Whether they were rated together, from the ratings at the period's start.
    together: bool
    games: tuple[GameLine, ...]
    #: 0 or None: unrated.
    before: Number
    change: Number
    after: Number | None
    #: The system's own fields, such as a rating deviation, before and after.
    fields_before: dict[str, float] = field(default_factory=dict)
    fields_after: dict[str, float] = field(default_factory=dict)
    #: FIDE: K by the rules and after the 700 rule, and the change and rating before the floor.
    k_by_rules: int | None = None
    k: int | None = None
    exact: float | None = None
    computed: int | None = None
    steps: tuple[Step, ...] = ()


def rate_game_list(
    system: RatingSystem, state: State, games: Sequence[Played], *, at: int, recent_games: int = 0
) -> GameListSummary:
    """Rate the games of a player in this state, at a time in ms.

    `recent_games` is the player's count in the 7 days before the first of them, for systems in which
    it matters; all games of the list count as played in the same 7 days.
    """
    for game in games:
        if game.score not in (0, 0.5, 1):
            msg = f"score: {game.score:g} is not allowed; 1, 0.5 or 0 is"
            raise ValueError(msg)
        if game.rd is not None and not 0 <= game.rd <= 100_000:
            msg = f"rd: {game.rd:g} is not allowed; 0 to 100000 is"
            raise ValueError(msg)
    return _rate_list(system, state, games, at, recent_games)


@singledispatch
def _rate_list(
    system: RatingSystem, state: State, games: Sequence[Played], at: int, recent_games: int
) -> GameListSummary:
    """Rate the list by the function registered for the system's class, else one game after another."""
    return _one_after_another(system, state, games, at, recent_games)


@_rate_list.register
def _(system: Fide, state: State, games: Sequence[Played], at: int, recent_games: int) -> GameListSummary:
    if system.period == "game":
        return _one_after_another(system, state, games, at, recent_games)
    held = FidePeriodState.of(state)
    player = FidePlayer(int(state.rating), state.games, held.peak, held.birth_year or None)
    report = period(player, [(int(game.opponent), game.score) for game in games], at=at, system=system)
    lines = [
        GameLine(row.opponent, row.score, None, None, None, row.expected, row.gain) for row in report.games
    ]
    return GameListSummary(
        system.name,
        True,
        tuple(lines),
        report.before,
        report.change,
        report.after,
        k_by_rules=report.k_by_rules,
        k=report.k,
        exact=report.exact,
        computed=report.computed,
        steps=report.steps,
    )


@_rate_list.register
def _(system: Glicko, state: State, games: Sequence[Played], at: int, recent_games: int) -> GameListSummary:
    rating, rd = float(state.rating), state.extra[0]
    opponents = _opponents(games, system.start_rd)
    lines = [_weighed(game, rating, glicko.g, glicko.expected_score) for game in opponents]
    information, gain = glicko.accumulate(rating, opponents)
    new, new_rd = glicko.posterior(rating, rd, information, gain)
    steps = (
        *_sums(len(games), information, gain),
        Step("RD after", f"1 / sqrt(1 / {rd:.2f}^2 + q^2 x {information:.6f})", f"{new_rd:.2f}"),
        Step("change", f"q x {new_rd:.2f}^2 x {gain:+.6f}", f"{new - rating:+.2f}"),
        Step("rating", f"{rating:.2f} {new - rating:+.2f}", f"{new:.2f}"),
    )
    return GameListSummary(
        system.name, True, tuple(lines), rating, new - rating, new, {"rd": rd}, {"rd": new_rd}, steps=steps
    )


@_rate_list.register
def _(system: Glicko2, state: State, games: Sequence[Played], at: int, recent_games: int) -> GameListSummary:
    rating, (rd, volatility) = float(state.rating), state.extra
    opponents = _opponents(games, system.start_rd)
    lines = [_weighed(game, rating, glicko2.g, glicko2.expected_score) for game in opponents]
    new = glicko2.rate_period(Rated(rating, rd, volatility), opponents, tau=system.tau)
    information = sum(
        glicko2.g(game.rd) ** 2 * (line.expected or 0) * (1 - (line.expected or 0))
        for game, line in zip(opponents, lines, strict=True)
    )
    gain = sum(line.gain or 0.0 for line in lines)
    grown = glicko2.rd_after_idle(rd, new.volatility, 1.0)
    variance = (new.rd / SCALE) ** 2
    steps = (
        *_sums(len(games), information, gain),
        Step(
            "volatility", f"from {volatility:g}, Illinois method, tau {system.tau:g}", f"{new.volatility:.8f}"
        ),
        Step("RD grown", f"sqrt({rd:.2f}^2 + ({new.volatility:.6f} x {SCALE})^2)", f"{grown:.5f}"),
        Step("RD after", f"{SCALE} / sqrt(({SCALE} / {grown:.2f})^2 + {information:.6f})", f"{new.rd:.5f}"),
        Step("change", f"{SCALE} x {variance:.6f} x {gain:+.6f}", f"{new.rating - rating:+.2f}"),
        Step("rating", f"{rating:.2f} {new.rating - rating:+.2f}", f"{new.rating:.2f}"),
    )
    return GameListSummary(
        system.name,
        True,
        tuple(lines),
        rating,
        new.rating - rating,
        new.rating,
        {"rd": rd, "volatility": volatility},
        {"rd": new.rd, "volatility": new.volatility},
        steps=steps,
    )


def _sums(games: int, information: float, gain: float) -> tuple[Step, Step]:
    return (
        Step("information", f"sum of g^2 E (1 - E) of {games} games", f"{information:.6f}"),
        Step("gain", "sum of g (score - E)", f"{gain:+.6f}"),
    )


def _opponents(games: Sequence[Played], rd: float) -> list[Opponent]:
    return [Opponent(float(game.opponent), rd if game.rd is None else game.rd, game.score) for game in games]


def _weighed(
    game: Opponent,
    rating: float,
    g: Callable[[float], float],
    expected_score: Callable[[float, float, float], float],
) -> GameLine:
    chance = expected_score(rating, game.rating, game.rd)
    gain = g(game.rd) * (game.score - chance)
    return GameLine(game.rating, game.score, game.rd, None, None, chance, gain)


def _one_after_another(
    system: RatingSystem, state: State, games: Sequence[Played], at: int, recent_games: int
) -> GameListSummary:
    if not games:
        msg = "games: none are given; this system needs at least one"
        raise ValueError(msg)
    before, lines, steps = state, [], []
    for number, played in enumerate(games):
        other = system.initial()
        other = other._replace(
            rating=int(played.opponent) if system.integer_ratings else float(played.opponent)
        )
        game = Game(
            at, (played.score, 1.0 - played.score), (recent_games + number, 0), played.cube, played.length
        )
        if not system.accepts(game):
            msg = f"length: {played.length} is not allowed; {system.name} does not rate such a game"
            raise ValueError(msg)
        outcome = system.rate(state, other, game)
        side = outcome.sides[0]
        event = event_of(
            system, (state, other), game, outcome=outcome, names=("player", f"game {number + 1}")
        )
        steps += [step for step in system.explain(event) if step.player in (None, "player")]
        lines.append(
            GameLine(
                played.opponent,
                played.score,
                None,
                played.cube if "cube" in system.depends_on else None,
                played.length if "length" in system.depends_on else None,
                side.expected,
                played.score - side.expected,
                side.k,
                side.change,
                side.rating,
            )
        )
        state = State(side.rating, state.games + 1, at, side.extra)
    return GameListSummary(
        system.name,
        False,
        tuple(lines),
        before.rating,
        state.rating - before.rating,
        state.rating,
        dict(zip(system.state_fields, before.extra, strict=True)),
        dict(zip(system.state_fields, state.extra, strict=True)),
        steps=tuple(steps),
    )
