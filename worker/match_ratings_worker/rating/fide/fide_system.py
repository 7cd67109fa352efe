"""FIDE's chess rating as a system: by monthly period as FIDE does, or game by game as calculators do.

A rating of 0 means unrated, as in FIDE's own lists. By month, a game changes no rating: it is added to the
player's state, and `close` turns the games held there into one change on the next list. Months are UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating.elo import round_div
from match_ratings_worker.rating.rating_system import (
    Game,
    InvalidGame,
    Outcome,
    RatingSystem,
    Side,
    State,
    Step,
)

from . import explain_fide
from .expected_score import SCALE, UNCAPPED_FROM, Expectation, capped_difference, expected_score
from .k_factor import KFactor, k_factor, limited_k
from .months import month_end, month_of
from .performance import FIRST_GAMES, first_rating
from .period_state import FidePeriodState


class Fide(RatingSystem):
    """FIDE's rating with a ladder's settings."""

    name: ClassVar[str] = "fide"
    state_fields: ClassVar[tuple[str, ...]] = FidePeriodState._fields
    integer_ratings: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    versions: ClassVar[tuple[str, ...]] = ("2024-03", "2025-10")

    #: FIDE's table 8.1.2, or the curve 1 / (1 + 10^(-D/400)).
    expectation: Expectation = "table"
    #: When changes are made and rounded: at the end of each month, or after each game.
    period: Literal["month", "game"] = "month"
    #: A K for everyone instead of FIDE's rules for it; the 700 rule still applies.
    k: Annotated[int, Field(ge=1, le=700)] | None = None
    #: Every player's first rating, in points; 0: unrated until five games against rated players.
    start: Annotated[int, Field(ge=0, le=4000)] = 1500
    #: By month, a rating that falls under this makes the player unrated; 1 for no floor.
    floor: Annotated[int, Field(ge=1, le=2200)] = 1400
    #: How long a month waits after its end for games of it that come late, in hours.
    grace_hours: Annotated[float, Field(ge=0, le=240)] = 1.0

    @model_validator(mode="after")
    def _somebody_is_rated(self) -> Self:
        if self.period == "game" and not self.start:
            msg = "start: 0 (unrated) is not allowed with period 'game'; first ratings need period 'month'"
            raise ValueError(msg)
        return self

    def initial(self) -> State:
        """A new player: the starting rating, no peak, no birth year, no games held."""
        return State(self.start, extra=FidePeriodState().extra())

    def rules_at(self, finished_at: int) -> str:
        """2025-10 since a player rated 2650 is free of the 400-point rule; 2024-03 before."""
        return "2025-10" if finished_at >= UNCAPPED_FROM else "2024-03"

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """By game both changes; by month no change, and the game is held until the month closes."""
        return (self.accrue if self.period == "month" else self.rate_alone)(first, second, game)

    def preview(self, first: State, second: State, game: Game) -> Outcome:
        """The change of a game by itself; raises InvalidGame for an unrated player."""
        if self.period == "month" and not (first.rating and second.rating):
            msg = (
                "rating: 0 is not allowed here; it means unrated, and a single game changes nothing for that"
            )
            raise InvalidGame(msg)
        return self.rate_alone(first, second, game)

    def rate_alone(self, first: State, second: State, game: Game) -> Outcome:
        """Both changes of a game rated and rounded by itself."""
        at, (one, two) = game.finished_at, game.scores
        sides = self._alone(first, second, one, at), self._alone(second, first, two, at)
        return Outcome(self.rules_at(at), sides)

    def accrue(self, first: State, second: State, game: Game) -> Outcome:
        """Adds a game to both players' states; ratings are those of the current list.

        A game against an unrated player counts for nobody. A late game goes into the month that is
        open, since a published list is not changed; close what `closes_at` says is due beforehand.
        """
        at, (one, two) = game.finished_at, game.scores
        sides = self._accrued(first, second, one, at), self._accrued(second, first, two, at)
        return Outcome(self.rules_at(at), sides)

    @property
    def period_grace(self) -> int | None:
        """The grace in ms; None when rating by game."""
        return round(self.grace_hours * 3_600_000) if self.period == "month" else None

    def closes_at(self, state: State) -> int | None:
        """The end of the month whose games are held; None for none, or fewer than a first rating needs."""
        held = FidePeriodState.of(state)
        if not held.open or (not state.rating and held.period_games < FIRST_GAMES):
            return None
        return month_end(held.period)

    def close(self, state: State) -> Side:
        """The change on the next list: K by the rules and the 700 rule, rounded once; or a first rating.

        A computed rating under the floor makes the player unrated (rating 0). An unrated player whose
        games come to less than the floor stays unrated and starts over.
        """
        held = FidePeriodState.of(state)
        if self.closes_at(state) is None:
            return Side(0, state.rating, 0.0, extra=state.extra)
        figures = {**held.figures(), "games": state.games}
        if not state.rating:
            first = first_rating(held.period_opponents, held.period_games, held.period_halves, self.floor)
            rating = first.rating or 0
            extra = held.closed(max(held.peak, rating)).extra()
            return Side(rating, rating, 0.0, None, extra, {**figures, "computed": first.computed})
        before = int(state.rating)
        why = self._k(held, before, state.games - held.period_games, held.period // 100)
        k = limited_k(why.k, held.period_games)
        computed = before + round_div(k * held.period_gain, SCALE)
        rating = computed if computed >= self.floor else 0
        expected = (held.period_halves * (SCALE // 2) - held.period_gain) / SCALE
        extra = held.closed(max(held.peak, before, rating)).extra()
        figures |= {"k_by_rules": why.k, "computed": computed}
        return Side(rating - before, rating, expected, k, extra, figures)

    def void(self, state: State, part: PlayerUpdate) -> State:
        """By game, takes the change back; by month, removes the game from those held.

        If the month is closed, the gain is taken back on the next list. A published first rating remains.
        """
        figures = part.figures
        if "counted" not in figures:
            return super().void(state, part)
        held, rated_then = FidePeriodState.of(state), "difference" in figures
        if not figures["counted"] or rated_then != bool(state.rating):
            return state
        left = held._replace(period_gain=held.period_gain - int(figures["gain"]))
        if not rated_then or (held.open and held.period == figures["period"]):
            left = left._replace(
                period_games=held.period_games - 1,
                period_opponents=held.period_opponents - int(figures["opponent"]),
                period_halves=held.period_halves - int(2 * (part.score or 0)),
            )
        return state._replace(extra=left.extra()) if left.possible else state

    def award(self, state: State, points: int) -> State:
        """The state after a prize; one that is unrated stays unrated."""
        return super().award(state, points) if state.rating else state

    def rated(self, state: State) -> bool:
        """Whether the rating is not 0, which means unrated."""
        return bool(state.rating)

    def on_leaderboard(self, state: State) -> bool:
        """Whether the player is rated."""
        return bool(state.rating)

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures: of a game, or of the end of a period."""
        if event.cause is Cause.PERIOD:
            return [step for part in event.players for step in explain_fide.explain_period(part, self.floor)]
        steps: list[Step] = []
        for own, other in (event.players, event.players[::-1]):
            steps += explain_fide.explain_game(own, other, event.finished_at, self.expectation)
        return steps

    def _k(self, held: FidePeriodState, rating: int, games: int, year: int) -> KFactor:
        if self.k is not None:
            return KFactor(self.k, "the ladder's setting")
        return k_factor(
            peak=max(held.peak, rating), games=games, birth_year=held.birth_year or None, year=year
        )

    def _alone(self, own: State, other: State, score: float, at: int) -> Side:
        held, before = FidePeriodState.of(own), int(own.rating)
        difference = capped_difference(before, int(other.rating), at)
        chance = expected_score(difference, self.expectation)
        k = self._k(held, before, own.games, month_of(at) // 100).k
        change = round_div(k * (int(2 * score) * (SCALE // 2) - chance), SCALE)
        extra = held._replace(peak=max(held.peak, before, before + change)).extra()
        figures = {**held.figures(), "games": own.games, "difference": difference}
        return Side(change, before + change, chance / SCALE, k, extra, figures)

    def _accrued(self, own: State, other: State, score: float, at: int) -> Side:
        held, figures = FidePeriodState.of(own), FidePeriodState.of(own).figures()
        if not other.rating:
            return Side(0, own.rating, 0.0, None, own.extra, {**figures, "counted": 0})
        chance = gain = 0
        figures |= {"counted": 1, "opponent": other.rating}
        if own.rating:
            difference = capped_difference(int(own.rating), int(other.rating), at)
            chance = expected_score(difference, self.expectation)
            gain = int(2 * score) * (SCALE // 2) - chance
            figures["difference"] = difference
        waits = own.rating and held.open
        period = held.period if waits else max(held.period, month_of(at))
        figures |= {"gain": gain, "period": period}
        added = held._replace(
            period=period,
            period_games=held.period_games + 1,
            period_gain=held.period_gain + gain,
            period_opponents=held.period_opponents + int(other.rating),
            period_halves=held.period_halves + int(2 * score),
        )
        return Side(0, own.rating, chance / SCALE, None, added.extra(), figures)
