"""FIDE's chess rating as a system: by monthly period as FIDE does, or game by game as calculators do.

The rules themselves are in `fide_rules`, the tables in `fide_tables`. A rating of 0 means unrated, as
in FIDE's own lists. By month, a game changes no rating: it is added to what the player's state holds,
and `close` turns that into one change on the next list. Months are UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating.fide import explain_fide as fide_steps
from match_ratings_worker.rating.fide.fide_rules import (
    BILLION,
    FIRST_GAMES,
    UNCAPPED_FROM,
    Expectation,
    Why,
    capped_difference,
    divide,
    expected_score,
    first_rating,
    k_factor,
    limited_k,
    month_end,
    month_of,
)
from match_ratings_worker.rating.rating_system import (
    Game,
    InvalidGame,
    Number,
    Outcome,
    RatingSystem,
    Side,
    State,
    Step,
)

__all__ = ["Fide", "Standing"]


class Standing(NamedTuple):
    """What a player's state holds besides the rating: whole numbers, 0 where there is nothing."""

    #: The highest published rating; 0 before the first (the present rating counts in any case).
    peak: int = 0
    #: 0 when not known, which is taken for an adult.
    birth_year: int = 0
    #: The month, as 202610, whose games are held, or from which on games will be held.
    period: int = 0
    #: The games held: those against rated players.
    period_games: int = 0
    #: The sum of their gains (score - expected), in billionths of a point; 0 while unrated.
    period_gain: int = 0
    #: The sum of their opponents' ratings, in points.
    period_opponents: int = 0
    #: The sum of their scores, in half points.
    period_halves: int = 0

    @classmethod
    def of(cls, state: State) -> Self:
        """The standing in a state's `extra`."""
        return cls(*map(int, state.extra))

    @property
    def open(self) -> bool:
        """Whether it holds anything that a list is still to show."""
        return bool(self.period_games or self.period_gain)

    @property
    def possible(self) -> bool:
        """Whether games can come to such sums."""
        return 0 <= self.period_halves <= 2 * self.period_games and self.period_opponents >= 0

    def extra(self) -> tuple[float, ...]:
        """The values for a state's `extra`; each is below 2^53, so a float holds it exactly."""
        return tuple(map(float, self))

    def closed(self, peak: int) -> Standing:
        """The standing on the next list: nothing held, and games held from the next month on."""
        year, month = divmod(self.period, 100)
        return Standing(peak, self.birth_year, (year + month // 12) * 100 + month % 12 + 1)

    def figures(self) -> dict[str, Number]:
        """Its values for an event, under their names with _before; those that are 0 are left out."""
        return {f"{name}_before": value for name, value in zip(self._fields, self, strict=True) if value}


class Fide(RatingSystem):
    """FIDE's rating with a ladder's settings."""

    name: ClassVar[str] = "fide"
    state_fields: ClassVar[tuple[str, ...]] = Standing._fields
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
        return State(self.start, extra=Standing().extra())

    def rules_at(self, finished_at: int) -> str:
        """2025-10 since a player rated 2650 is free of the 400-point rule; 2024-03 before."""
        return "2025-10" if finished_at >= UNCAPPED_FROM else "2024-03"

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """By game both changes; by month no change, and the game is held until the month closes."""
        return (self.accrue if self.period == "month" else self.rate_alone)(first, second, game)

    def preview(self, first: State, second: State, game: Game) -> Outcome:
        """What a game would change if it were the only one; raises InvalidGame for an unrated player."""
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
        """Adds a game to what both players' states hold; ratings are those of the current list.

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
        held = Standing.of(state)
        if not held.open or (not state.rating and held.period_games < FIRST_GAMES):
            return None
        return month_end(held.period)

    def close(self, state: State) -> Side:
        """The change on the next list: K by the rules and the 700 rule, rounded once; or a first rating.

        A computed rating under the floor makes the player unrated (rating 0). An unrated player whose
        games come to less than the floor stays unrated and starts afresh.
        """
        held = Standing.of(state)
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
        computed = before + divide(k * held.period_gain, BILLION)
        rating = computed if computed >= self.floor else 0
        expected = (held.period_halves * (BILLION // 2) - held.period_gain) / BILLION
        extra = held.closed(max(held.peak, before, rating)).extra()
        figures |= {"k_by_rules": why.k, "computed": computed}
        return Side(rating - before, rating, expected, k, extra, figures)

    def void(self, state: State, part: PlayerUpdate) -> State:
        """By game the change is taken back; by month the game is taken out of what is held.

        Of a game whose month is closed the gain is taken back, on the next list. A first rating that
        was published stands.
        """
        figures = part.figures
        if "counted" not in figures:
            return super().void(state, part)
        held, rated_then = Standing.of(state), "difference" in figures
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
            return [step for part in event.players for step in fide_steps.of_period(part, self.floor)]
        steps: list[Step] = []
        for own, other in (event.players, event.players[::-1]):
            steps += fide_steps.of_game(own, other, event.finished_at, self.expectation)
        return steps

    def _k(self, held: Standing, rating: int, games: int, year: int) -> Why:
        if self.k is not None:
            return Why(self.k, "the ladder's setting")
        return k_factor(
            peak=max(held.peak, rating), games=games, birth_year=held.birth_year or None, year=year
        )

    def _alone(self, own: State, other: State, score: float, at: int) -> Side:
        held, before = Standing.of(own), int(own.rating)
        difference = capped_difference(before, int(other.rating), at)
        chance = expected_score(difference, self.expectation)
        k = self._k(held, before, own.games, month_of(at) // 100).k
        change = divide(k * (int(2 * score) * (BILLION // 2) - chance), BILLION)
        extra = held._replace(peak=max(held.peak, before, before + change)).extra()
        figures = {**held.figures(), "games": own.games, "difference": difference}
        return Side(change, before + change, chance / BILLION, k, extra, figures)

    def _accrued(self, own: State, other: State, score: float, at: int) -> Side:
        held, figures = Standing.of(own), Standing.of(own).figures()
        if not other.rating:
            return Side(0, own.rating, 0.0, None, own.extra, {**figures, "counted": 0})
        chance = gain = 0
        figures |= {"counted": 1, "opponent": other.rating}
        if own.rating:
            difference = capped_difference(int(own.rating), int(other.rating), at)
            chance = expected_score(difference, self.expectation)
            gain = int(2 * score) * (BILLION // 2) - chance
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
        return Side(0, own.rating, chance / BILLION, None, added.extra(), figures)
