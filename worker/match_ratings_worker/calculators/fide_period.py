"""FIDE's calculators: performance ratings, and the games of a rating period.

Pure functions with frozen results. Wrong input raises ValueError with the field and what is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating import Game, Side, State, Step, fide
from match_ratings_worker.rating.fide import SCALE, Fide, FidePeriodState

_DEFAULT: Final = Fide()


@dataclass(frozen=True, slots=True)
class PeriodGame:
    """A game of a FIDE period: the opponent's rating on the current list, and the score 1, 0.5 or 0."""

    opponent: int
    score: float
    #: The rating difference that counts, in points; None for an unrated player.
    difference: int | None = None
    #: The expected score; None for an unrated player.
    expected: float | None = None
    #: score - expected; None for an unrated player.
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """The result of a FIDE period."""

    games: tuple[PeriodGame, ...]
    score: float
    #: The sums over the games; None for an unrated player.
    expected: float | None
    gain: float | None
    #: K by the rules (or as given) and after the 700 rule; None for an unrated player.
    k_by_rules: int | None
    k: int | None
    #: The rating on the current list; 0: unrated.
    before: int
    #: K x gain before it is rounded; None for an unrated player.
    exact: float | None
    #: The rounded change; 0 for an unrated player.
    change: int
    #: The rating as computed, before the floor and, for an unrated player, the number of games are applied.
    computed: int
    #: The rating on the next list; None: unrated.
    after: int | None
    steps: tuple[Step, ...]


def performance(
    opponents: Sequence[int], score: float, method: Literal["table", "linear"] = "table"
) -> fide.Performance:
    """FIDE's performance rating from the opponents' ratings in points and the score.

    By table 8.1.1 or by the linear approximation, which raises ValueError at 100 % and 0 %.
    """
    calculate = fide.performance if method == "table" else fide.linear_performance
    return calculate(opponents, score)


class FidePlayer(NamedTuple):
    """A player on FIDE's current list."""

    #: The rating in points; 0: unrated.
    rating: int
    #: Games completed before the period; by default the player is not new any more.
    games: int = fide.NEW_GAMES
    #: The highest published rating so far, in points.
    peak: int = 0
    birth_year: int | None = None


def period(
    player: FidePlayer, games: Sequence[tuple[int, float]], *, at: int, system: Fide = _DEFAULT
) -> PeriodReport:
    """A FIDE period: games as (opponent's rating, score), with the 400-point, K and 700 rules applied.

    `at` is a time in ms within the period. Raises ValueError without games or with wrong figures.
    """
    rating, floor = player.rating, system.floor
    _check_period(player, games)
    held_before = FidePeriodState(peak=player.peak, birth_year=player.birth_year or 0)
    state = State(rating, player.games, extra=held_before.extra())
    rows = []
    for opponent, score in games:
        side = system.accrue(
            state, State(opponent, extra=FidePeriodState().extra()), Game(at, (score, 1 - score))
        ).sides[0]
        state = state._replace(games=state.games + 1, extra=side.extra)
        row = PeriodGame(opponent, score)
        if rating:
            gain = side.figures["gain"] / SCALE
            row = PeriodGame(opponent, score, int(side.figures["difference"]), side.expected, gain)
        rows.append(row)
    held, closed = FidePeriodState.of(state), system.close(state)
    if not rating:
        first = fide.first_rating(held.period_opponents, held.period_games, held.period_halves, floor)
        closed = closed._replace(figures={**held.figures(), "computed": first.computed})
    used = int(closed.k or 0)
    return PeriodReport(
        games=tuple(rows),
        score=held.period_halves / 2,
        expected=closed.expected if rating else None,
        gain=held.period_gain / SCALE if rating else None,
        k_by_rules=int(closed.figures["k_by_rules"]) if rating else None,
        k=used if rating else None,
        before=rating,
        exact=used * held.period_gain / SCALE if rating else None,
        change=int(closed.figures["computed"]) - rating if rating else 0,
        computed=int(closed.figures["computed"]),
        after=int(closed.rating) or None,
        steps=tuple(system.explain(_event(system, state, closed, at))),
    )


def _event(system: Fide, state: State, closed: Side, at: int) -> RatingUpdated:
    part = PlayerUpdate(
        player="player",
        before=state.rating,
        change=closed.change,
        after=closed.rating,
        expected=closed.expected,
        k=closed.k,
        sequence=1,
        figures=dict(closed.figures),
    )
    return RatingUpdated(
        cause=Cause.PERIOD,
        ladder="period",
        system=system.name,
        rules=system.rules_at(at),
        finished_at=at,
        rated_at=at,
        players=(part,),
    )


def _check_period(player: FidePlayer, games: Sequence[tuple[int, float]]) -> None:
    if not games:
        msg = "games: none are given; a period needs at least one"
        raise ValueError(msg)
    for field, value in (("rating", player.rating), ("games_before", player.games)):
        if value < 0:
            msg = f"{field}: {value} is not allowed; 0 or more is"
            raise ValueError(msg)
    for opponent, score in games:
        if opponent < 1:
            msg = f"opponent: {opponent} is not allowed; a rating from 1 is; unrated opponents do not count"
            raise ValueError(msg)
        if score not in (0, 0.5, 1):
            msg = f"score: {score:g} is not allowed; 1, 0.5 or 0 is"
            raise ValueError(msg)
