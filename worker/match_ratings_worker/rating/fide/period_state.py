"""The state of a FIDE player: peak, birth year, and the games that wait for the end of the month."""

from __future__ import annotations

from typing import NamedTuple, Self

from match_ratings_worker.rating.rating_system import Number, State

from .months import next_month


class FidePeriodState(NamedTuple):
    """The state of a FIDE player besides the rating: whole numbers, 0 for nothing."""

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
        """The values of a state's `extra`, by name."""
        return cls(*map(int, state.extra))

    @property
    def open(self) -> bool:
        """Whether it holds games that no list has shown yet."""
        return bool(self.period_games or self.period_gain)

    @property
    def possible(self) -> bool:
        """Whether the sums are consistent."""
        return 0 <= self.period_halves <= 2 * self.period_games and self.period_opponents >= 0

    def extra(self) -> tuple[float, ...]:
        """The values for a state's `extra`; each is below 2^53, so a float holds it exactly."""
        return tuple(map(float, self))

    def closed(self, peak: int) -> FidePeriodState:
        """The state on the next list: no games held, and the next month open."""
        return FidePeriodState(peak, self.birth_year, next_month(self.period))

    def figures(self) -> dict[str, Number]:
        """The values for an event, under their names with _before; zeros are left out."""
        return {f"{name}_before": value for name, value in zip(self._fields, self, strict=True) if value}
