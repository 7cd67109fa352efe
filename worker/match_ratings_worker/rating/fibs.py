"""The rating of FIBS, the First Internet Backgammon Server, for matches to n points.

    P_upset = 1 / (10^(|D| * sqrt(n) / 2000) + 1)
    change  = 4 * K * sqrt(n) * (1 - P_upset) when the underdog wins, else 4 * K * sqrt(n) * P_upset
    K       = max(1, 5 - experience / 100)

D is the rating difference in points; the loser's change is negative. K is each player's own, from the
points of the matches finished so far. Ratings are decimals and start at 1500, experience at 0.
Source: the rating formula that FIBS prints with `help formula`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from match_ratings import PlayerUpdate, RatingUpdated

from .elo import expected
from .rating_system import Game, InvalidGame, Outcome, RatingSystem, Side, State, Step, difference


def winning_chance(own: float, opponent: float, length: int) -> float:
    """The chance, 0..1, that the player rated `own` points wins a match to `length` points."""
    # With D = opponent - own this is 1 - P_upset for the favourite and P_upset for the underdog.
    return expected(own * math.sqrt(length), opponent * math.sqrt(length), 2000)


def k_factor(experience: float) -> float:
    """K for an experience in match points: from 5 for a new player down to 1 from 400 points on."""
    return max(1.0, 5.0 - experience / 100.0)


class Fibs(RatingSystem):
    """FIBS's rating with a ladder's settings."""

    name: ClassVar[str] = "fibs"
    state_fields: ClassVar[tuple[str, ...]] = ("experience",)
    depends_on: ClassVar[tuple[str, ...]] = ("length",)

    #: Every player's first rating, in points.
    start: Annotated[float, Field(ge=-100_000, le=100_000, allow_inf_nan=False)] = 1500.0
    #: Whether K follows from the experience with the match being rated ("after") or without ("before").
    experience: Literal["after", "before"] = "after"

    def initial(self) -> State:
        """A new player: the starting rating and no experience."""
        return State(self.start, extra=(0.0,))

    def accepts(self, game: Game) -> bool:
        """Whether it is a match to a number of points; unlimited ones are not rated."""
        return game.length is not None

    def divisor_at(self, finished_at: int) -> float:
        """2000, for a match to one point."""
        return 2000.0

    def effective_difference(self, own: float, opponent: float, expected: float, finished_at: int) -> float:
        """D * sqrt(n): the difference as it counts in a match to n points."""
        return difference(expected, self.divisor_at(finished_at))

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """Both changes, each from its own K; raises InvalidGame for a draw or an unlimited match."""
        if game.scores not in ((1, 0), (0, 1)):
            msg = "winner: null is a draw, which backgammon does not have; name the player who won"
            raise InvalidGame(msg)
        if game.length is None or game.length < 1:
            msg = f"length: {game.length} is not allowed; FIBS rates matches to 1 or more points"
            raise InvalidGame(msg)
        chance = winning_chance(first.rating, second.rating, game.length)
        sides = (
            self._side(first, game.scores[0], chance, game.length),
            self._side(second, game.scores[1], 1.0 - chance, game.length),
        )
        return Outcome("1", sides, figures={"length": game.length})

    def _side(self, state: State, score: float, chance: float, length: int) -> Side:
        before = state.extra[0]
        after = before + length
        k = k_factor(after if self.experience == "after" else before)
        change = 4.0 * k * math.sqrt(length) * (score - chance)
        figures = {"experience_before": before, "experience_after": after}
        return Side(change, state.rating + change, chance, k, (after,), figures)

    def void(self, state: State, part: PlayerUpdate) -> State:
        """The state after taking back a match: without its change and its points of experience."""
        played = part.figures["experience_after"] - part.figures["experience_before"]
        return super().void(state, part)._replace(extra=(max(state.extra[0] - played, 0.0),))

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures: the match's length, then each player's change."""
        length = int(event.figures["length"])
        steps = [Step("length", f"sqrt({length})", f"{math.sqrt(length):.4f}")]
        for own, other in (event.players, event.players[::-1]):
            name, score, k, chance = own.player, own.score or 0, own.k or 0.0, own.expected or 0.0
            gap = abs(own.before - other.before)
            upset = f"1 / (10^({gap:.2f} x {math.sqrt(length):.4f} / 2000) + 1)"
            shown = "1/2" if not gap else upset if own.before < other.before else f"1 - {upset}"
            before, after = own.figures["experience_before"], own.figures["experience_after"]
            counted = f"{before:g} + {length}" if self.experience == "after" else f"{before:g}"
            steps += [
                Step("expected", shown, f"{chance:.4f}", name),
                Step("experience", f"{before:g} + {length}", f"{after:g}", name),
                Step("K", f"max(1, 5 - ({counted}) / 100)", f"{k:g}", name),
                Step(
                    "change",
                    f"4 x {k:g} x {math.sqrt(length):.4f} x ({score:g} - {chance:.4f})",
                    f"{own.change:+.4f}",
                    name,
                ),
                Step("rating", f"{own.before:.2f} {own.change:+.2f}", f"{own.after:.2f}", name),
            ]
        return steps
