"""The common part of Glicko and Glicko-2: systems whose players have a rating deviation (RD), in points."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from .rating_system import Game, Outcome, RatingSystem, Side, State, difference

#: A setting in points, days or the like that must be above 0.
Positive = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]


class Opponent(NamedTuple):
    """One game of a period: whom it was against and its score, 1, 0.5 or 0."""

    rating: float
    rd: float
    score: float


class RatingDeviationSystem(RatingSystem):
    """A system that rates game by game, with the first of a state's values as the RD after the last game."""

    draws: ClassVar[bool] = True
    cosmetic: ClassVar[tuple[str, ...]] = ("provisional_rd", "listed_rd")

    #: Provisional while RD is this high; on the leaderboard while it is at most that. In points.
    provisional_rd: Positive
    listed_rd: Positive

    @abstractmethod
    def rd_at(self, state: State, at: int) -> float:
        """A player's RD at a time in ms, grown since the last game; a time before that game adds none."""

    @abstractmethod
    def _side(self, state: State, rd: float, game: Opponent) -> Side:
        """One player's part of the outcome of a game, with `rd` as grown to it."""

    def provisional(self, state: State) -> bool:
        """Whether the RD after the last game is still too high for a reliable rating.

        For callers that show ratings; the worker itself does not read it.
        """
        return state.extra[0] >= self.provisional_rd

    def effective_difference(self, own: float, opponent: float, expected: float, finished_at: int) -> float:
        """g(RD) * (r - r_opponent): the less is known of the opponent, the less the difference counts."""
        return difference(expected, self.divisor_at(finished_at))

    def on_leaderboard(self, state: State) -> bool:
        """Whether the RD after the last game is small enough for the leaderboard."""
        return state.extra[0] <= self.listed_rd

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """Both new ratings from the RDs as grown to the game."""
        rds = self.rd_at(first, game.finished_at), self.rd_at(second, game.finished_at)
        return Outcome(
            "1",
            (
                self._side(first, rds[0], Opponent(second.rating, rds[1], game.scores[0])),
                self._side(second, rds[1], Opponent(first.rating, rds[0], game.scores[1])),
            ),
        )
