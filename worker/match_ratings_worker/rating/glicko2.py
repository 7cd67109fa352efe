"""Mark Glickman's Glicko-2, with the constants of Lichess: one game at a time.

On the inner scale mu = (r - 1500) / 173.7178, phi = RD / 173.7178:

    g(phi) = 1 / sqrt(1 + 3 phi^2 / pi^2);  E = 1 / (1 + exp(-g(phi_opponent) * (mu - mu_opponent)))
    1/v = sum of g^2 E (1 - E);  delta = v * sum of g (score - E)
    sigma' solves f(x) = 0 for x = ln sigma'^2, by the Illinois method to within 1e-6
    phi* = sqrt(phi^2 + t sigma'^2);  phi' = 1 / sqrt(1/phi*^2 + 1/v);  mu' = mu + phi'^2 * delta / v

Source: M. Glickman, "Example of the Glicko-2 system", glicko.net/glicko/glicko2.pdf. As on Lichess, RD
grows with the old sigma to the moment of a game, t being the fractional periods since the player's last
one, and the game itself is a period in which no time passes. Decimals are never rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Final, NamedTuple, Self

from pydantic import Field, model_validator

from match_ratings import RatingUpdated
from match_ratings_worker.time_units import DAY_MS

from .glicko_deviation import Opponent, Positive, RatingDeviationSystem
from .rating_system import Side, State, Step

SCALE: Final = 173.7178
CENTRE: Final = 1500.0
TOLERANCE: Final = 1e-6


class Rated(NamedTuple):
    """A rating and its RD in points, and its volatility."""

    rating: float
    rd: float
    volatility: float


def g(rd: float) -> float:
    """How much a game counts against an opponent with this RD, in points: 1 for RD 0, less above."""
    return 1.0 / math.sqrt(1.0 + 3.0 * (rd / SCALE / math.pi) ** 2)


def expected_score(rating: float, opponent: float, opponent_rd: float) -> float:
    """The score, 0..1, that a player is expected to make against an opponent."""
    edge = g(opponent_rd) * (rating - opponent) / SCALE
    power = math.exp(-abs(edge))  # never overflows
    return (1.0 if edge >= 0 else power) / (1.0 + power)


def rd_after_idle(rd: float, volatility: float, periods: float) -> float:
    """RD in points after a number of idle rating periods; fewer than none count as none."""
    return math.sqrt(rd * rd + max(periods, 0.0) * (volatility * SCALE) ** 2)


def rate_period(player: Rated, games: Iterable[Opponent], *, tau: float, elapsed: float = 1.0) -> Rated:
    """A player after one period's games, in which `elapsed` periods of time pass (1 in the paper)."""
    phi = player.rd / SCALE
    information = gain = 0.0
    for game in games:
        weight, chance = g(game.rd), expected_score(player.rating, game.rating, game.rd)
        information += weight * weight * chance * (1.0 - chance)
        gain += weight * (game.score - chance)
    volatility = player.volatility
    if information > 1e-60:  # without games, or with none that tell anything, the volatility stays
        volatility = _new_volatility(phi, volatility, 1.0 / information, gain / information, tau)
    grown_rd = rd_after_idle(player.rd, volatility, elapsed) / SCALE
    variance = 1.0 / (1.0 / (grown_rd * grown_rd) + information)
    return Rated(player.rating + SCALE * variance * gain, SCALE * math.sqrt(variance), volatility)


def _new_volatility(phi: float, sigma: float, v: float, delta: float, tau: float) -> float:
    """Step 5 of the paper: the Illinois method between two values that bracket the root."""
    start, excess = math.log(sigma * sigma), delta * delta - phi * phi - v

    def f(x: float) -> float:
        power = math.exp(x)
        base = phi * phi + v + power
        return power * (excess - power) / (2.0 * base * base) - (x - start) / (tau * tau)

    low = start
    if excess > 0:
        high = math.log(excess)
    else:
        high = start - tau
        while f(high) < 0:
            high -= tau
    f_low, f_high = f(low), f(high)
    while abs(high - low) > TOLERANCE:
        middle = low + (low - high) * f_low / (f_high - f_low)
        f_middle = f(middle)
        if f_middle * f_high <= 0:
            low, f_low = high, f_high
        else:
            f_low /= 2.0
        high, f_high = middle, f_middle
    return math.exp(low / 2.0)


class Glicko2(RatingDeviationSystem):
    """Glicko-2 game by game; the defaults of a ladder's settings are Lichess's constants."""

    name: ClassVar[str] = "glicko2"
    state_fields: ClassVar[tuple[str, ...]] = ("rd", "volatility")

    #: Every player's first rating and RD, in points, and volatility.
    start: Annotated[float, Field(ge=-100_000, le=100_000, allow_inf_nan=False)] = 1500.0
    start_rd: Positive = 500.0
    start_volatility: Annotated[float, Field(ge=1e-6, le=1)] = 0.09
    #: How freely the volatility changes; the paper recommends 0.3 to 1.2.
    tau: Annotated[float, Field(ge=0.01, le=10)] = 0.75
    min_rating: Annotated[float, Field(ge=-100_000, le=100_000)] = 400.0
    max_rating: Annotated[float, Field(ge=-100_000, le=100_000)] = 4000.0
    min_rd: Positive = 45.0
    max_rd: Positive = 500.0
    max_volatility: Annotated[float, Field(ge=1e-6, le=1)] = 0.1
    #: The largest change by one game, in points.
    max_change: Positive = 700.0
    #: How many rating periods of idle time a day is.
    periods_per_day: Annotated[float, Field(ge=0, le=1000)] = 0.21436
    #: Provisional while RD is this high; on the leaderboard while it is at most that. In points.
    provisional_rd: Positive = 110.0
    listed_rd: Positive = 75.0

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        for name, low, value, high in (
            ("start", self.min_rating, self.start, self.max_rating),
            ("start_rd", self.min_rd, self.start_rd, self.max_rd),
            ("start_volatility", 0.0, self.start_volatility, self.max_volatility),
        ):
            if not low <= value <= high:
                msg = f"{name}: {value:g} is not allowed with these bounds; {low:g} to {high:g} is"
                raise ValueError(msg)
        return self

    def initial(self) -> State:
        """A new player: the starting rating, RD and volatility."""
        return State(self.start, extra=(self.start_rd, self.start_volatility))

    def rd_at(self, state: State, at: int) -> float:
        """A player's RD at a time in ms, grown since the last game; a time before that game adds none."""
        periods = (at - state.last_game) / DAY_MS * self.periods_per_day if state.last_game else 0.0
        return _between(self.min_rd, rd_after_idle(state.extra[0], state.extra[1], periods), self.max_rd)

    def _side(self, state: State, rd: float, game: Opponent) -> Side:
        volatility = state.extra[1]
        new = rate_period(Rated(state.rating, rd, volatility), [game], tau=self.tau, elapsed=0.0)
        change = _between(-self.max_change, new.rating - state.rating, self.max_change)
        change = _between(self.min_rating, state.rating + change, self.max_rating) - state.rating
        new_rd = _between(self.min_rd, new.rd, self.max_rd)
        new_volatility = min(new.volatility, self.max_volatility)
        figures = {
            "rd_before": state.extra[0],
            "rd": rd,
            "rd_after": new_rd,
            "volatility_before": volatility,
            "volatility_after": new_volatility,
            "last_game": state.last_game,
        }
        chance = expected_score(state.rating, game.rating, game.rd)
        return Side(change, state.rating + change, chance, None, (new_rd, new_volatility), figures)

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures, for each player."""
        steps: list[Step] = []
        for own, other in (event.players, event.players[::-1]):
            name, figures, score, chance = own.player, own.figures, own.score or 0, own.expected or 0.0
            before, rd, sigma = figures["rd_before"], figures["rd"], figures["volatility_before"]
            last, after = figures["last_game"], figures["volatility_after"]
            idle = max(0.0, (event.finished_at - last) / DAY_MS * self.periods_per_day) if last else 0.0
            weight = g(other.figures["rd"])
            information = weight * weight * chance * (1.0 - chance)
            gain = weight * (score - chance)
            variance = 1.0 / ((SCALE / rd) ** 2 + information)
            gap = f"({own.before:.2f} - {other.before:.2f}) / {SCALE}"
            phi = f"({other.figures['rd']:.2f} / {SCALE})^2"
            grew = f"sqrt({before:.2f}^2 + {idle:.4f} x ({sigma:.6f} x {SCALE})^2)"
            bounds = f"within {self.min_rating:g} to {self.max_rating:g}, at most {self.max_change:g} a game"
            steps += [
                Step("RD before", f"{grew}, {self.min_rd:g} to {self.max_rd:g}", f"{rd:.2f}", name),
                Step("g", f"1 / sqrt(1 + 3 x {phi} / pi^2)", f"{weight:.4f}", name),
                Step("expected", f"1 / (1 + exp(-{weight:.4f} x {gap}))", f"{chance:.4f}", name),
                Step(
                    "1/v", f"{weight:.4f}^2 x {chance:.4f} x (1 - {chance:.4f})", f"{information:.6f}", name
                ),
                Step("gain", f"{weight:.4f} x ({score:g} - {chance:.4f})", f"{gain:+.6f}", name),
                Step(
                    "volatility",
                    f"from {sigma:.6f}: root of f by the Illinois method, tau {self.tau:g}, "
                    f"at most {self.max_volatility:g}",
                    f"{after:.6f}",
                    name,
                ),
                Step(
                    "RD after",
                    f"{SCALE} / sqrt(({SCALE} / {rd:.2f})^2 + {information:.6f})",
                    f"{figures['rd_after']:.2f}",
                    name,
                ),
                Step(
                    "change", f"{SCALE} x {variance:.6f} x {gain:+.6f}, {bounds}", f"{own.change:+.2f}", name
                ),
                Step("rating", f"{own.before:.2f} {own.change:+.2f}", f"{own.after:.2f}", name),
            ]
        return steps


def _between(low: float, value: float, high: float) -> float:
    return max(low, min(value, high))
