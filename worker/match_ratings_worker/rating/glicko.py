"""Mark Glickman's Glicko: a rating and its deviation RD, which grows while a player is idle.

    q = ln(10) / 400;  g(RD) = 1 / sqrt(1 + 3 q^2 RD^2 / pi^2)
    E = 1 / (1 + 10^(-g(RD_opponent) * (r - r_opponent) / 400))
    1/d^2 = q^2 * sum of g^2 E (1 - E);  RD'^2 = 1 / (1/RD^2 + 1/d^2)
    r' = r + q RD'^2 * sum of g (score - E)
    RD before a period = min(sqrt(RD^2 + c^2 t), 350)      t in rating periods

Source: M. Glickman, "The Glicko system", glicko.net/glicko/glicko.pdf. `Glicko` rates game by game, t
being the time since the player's last game in fractional periods; `glicko_periods` closes whole rating
periods as the paper does. Decimals are never rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from match_ratings import PlayerUpdate, RatingUpdated
from match_ratings_worker.time_units import DAY_MS

from .elo import expected
from .glicko_deviation import Opponent, Positive, RatingDeviationSystem
from .rating_system import Side, State, Step

Q: Final = math.log(10.0) / 400.0


def g(rd: float) -> float:
    """How much a game counts against an opponent with this RD, in points: 1 for RD 0, less above."""
    return 1.0 / math.sqrt(1.0 + 3.0 * Q * Q * rd * rd / (math.pi * math.pi))


def expected_score(rating: float, opponent: float, opponent_rd: float) -> float:
    """The score, 0..1, that a player is expected to make against an opponent."""
    weight = g(opponent_rd)
    return expected(weight * rating, weight * opponent, 400)


def rd_after_idle(rd: float, periods: float, c: float, max_rd: float) -> float:
    """RD in points after a number of idle rating periods; fewer than none count as none."""
    return min(math.sqrt(rd * rd + c * c * max(periods, 0.0)), max_rd)


def accumulate(rating: float, games: Iterable[Opponent]) -> tuple[float, float]:
    """The information and gain of games: the sums of g^2 E (1 - E) and of g (score - E)."""
    information = gain = 0.0
    for game in games:
        weight, chance = g(game.rd), expected_score(rating, game.rating, game.rd)
        information += weight * weight * chance * (1.0 - chance)
        gain += weight * (game.score - chance)
    return information, gain


def posterior(rating: float, rd: float, information: float, gain: float) -> tuple[float, float]:
    """The rating and RD, in points, after games with these sums."""
    variance = 1.0 / (1.0 / (rd * rd) + Q * Q * information)
    return rating + Q * variance * gain, math.sqrt(variance)


def rate_period(rating: float, rd: float, games: Iterable[Opponent]) -> tuple[float, float]:
    """The rating and RD, in points, after one period's games; `rd` as grown to the period's start."""
    return posterior(rating, rd, *accumulate(rating, games))


def game_steps(own: PlayerUpdate, other: PlayerUpdate) -> list[Step]:
    """The steps of one game, with the figures of both players in its event."""
    rd, name = other.figures["rd"], own.player
    weight, chance = g(rd), own.expected or 0.0
    gap = f"{own.before:.2f} - {other.before:.2f}"
    return [
        Step("g", f"1 / sqrt(1 + 3 x q^2 x {rd:.2f}^2 / pi^2), q = ln(10) / 400", f"{weight:.4f}", name),
        Step("expected", f"1 / (1 + 10^(-{weight:.4f} x ({gap}) / 400))", f"{chance:.4f}", name),
        Step(
            "information",
            f"{weight:.4f}^2 x {chance:.4f} x (1 - {chance:.4f})",
            f"{weight * weight * chance * (1.0 - chance):.6f}",
            name,
        ),
        Step(
            "gain",
            f"{weight:.4f} x ({own.score or 0:g} - {chance:.4f})",
            f"{weight * ((own.score or 0) - chance):+.6f}",
            name,
        ),
    ]


def posterior_steps(own: PlayerUpdate, rd: float, information: float, gain: float) -> list[Step]:
    """The steps from the sums of the games to the new rating and RD."""
    name, after = own.player, own.figures["rd_after"]
    raw = posterior(own.before, rd, information, gain)[1]
    return [
        Step("RD after", f"1 / sqrt(1 / {rd:.2f}^2 + q^2 x {information:.6f})", f"{after:.2f}", name),
        Step("change", f"q x {raw:.2f}^2 x {gain:+.6f}", f"{own.change:+.2f}", name),
        Step("rating", f"{own.before:.2f} {own.change:+.2f}", f"{own.after:.2f}", name),
    ]


class Glicko(RatingDeviationSystem):
    """Glicko game by game, with a ladder's settings."""

    name: ClassVar[str] = "glicko"
    state_fields: ClassVar[tuple[str, ...]] = ("rd",)

    #: Every player's first rating and RD, in points.
    start: Annotated[float, Field(ge=-100_000, le=100_000, allow_inf_nan=False)] = 1500.0
    start_rd: Positive = 350.0
    #: How fast RD grows, in points: from 50 back to 350 in 100 periods.
    c: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = math.sqrt(
        (350.0**2 - 50.0**2) / 100.0
    )
    #: The length of a rating period, in days.
    period_days: Positive = 30.0
    min_rd: Positive = 30.0
    max_rd: Positive = 350.0
    #: Provisional while RD is this high; on the leaderboard while it is at most that. In points.
    provisional_rd: Positive = 110.0
    listed_rd: Positive = 350.0

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if not self.min_rd <= self.start_rd <= self.max_rd:
            bounds = f"min_rd {self.min_rd:g} to max_rd {self.max_rd:g}"
            msg = f"start_rd: {self.start_rd:g} is not allowed; {bounds} is"
            raise ValueError(msg)
        return self

    def initial(self) -> State:
        """A new player: the starting rating and RD."""
        return State(self.start, extra=(self.start_rd,))

    def rd_at(self, state: State, at: int) -> float:
        """A player's RD at a time in ms, grown since the last game; a time before that game adds none."""
        periods = (at - state.last_game) / (self.period_days * DAY_MS) if state.last_game else 0.0
        return self._bounded(rd_after_idle(state.extra[0], periods, self.c, self.max_rd))

    def _side(self, state: State, rd: float, game: Opponent) -> Side:
        rating, after = rate_period(state.rating, rd, [game])
        change, after = rating - state.rating, self._bounded(after)
        chance = expected_score(state.rating, game.rating, game.rd)
        figures = {"rd_before": state.extra[0], "rd": rd, "rd_after": after, "last_game": state.last_game}
        return Side(change, state.rating + change, chance, None, (after,), figures)

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures, for each player."""
        steps: list[Step] = []
        for own, other in (event.players, event.players[::-1]):
            last = own.figures["last_game"]
            idle = (event.finished_at - last) / (self.period_days * DAY_MS) if last else 0.0
            steps.append(self.grown_step(own, max(idle, 0.0)))
            steps += game_steps(own, other)
            rd, chance, weight = own.figures["rd"], own.expected or 0.0, g(other.figures["rd"])
            information = weight * weight * chance * (1.0 - chance)
            steps += posterior_steps(own, rd, information, weight * ((own.score or 0) - chance))
        return steps

    def grown_step(self, own: PlayerUpdate, periods: float) -> Step:
        """How the RD grew in a number of idle periods."""
        grew = f"sqrt({own.figures['rd_before']:.2f}^2 + {self.c:.2f}^2 x {periods:.4f})"
        bounds = f"{self.min_rd:g} to {self.max_rd:g}"
        return Step("RD before", f"{grew}, {bounds}", f"{own.figures['rd']:.2f}", own.player)

    def _bounded(self, rd: float) -> float:
        return max(self.min_rd, min(rd, self.max_rd))
