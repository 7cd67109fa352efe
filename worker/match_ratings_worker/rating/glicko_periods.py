"""Glicko by rating periods, as in Glickman's paper: the games of a period are rated together at its end.

Between closings a player's state holds the sums that the paper's formulas need, so that games can be
added one at a time; ratings and RDs stay what they were when the period began. Periods follow each
other from 1970 on (UTC).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.time_units import DAY_MS

from .glicko import Glicko, accumulate, expected_score, game_steps, posterior, posterior_steps, rd_after_idle
from .glicko_deviation import Opponent
from .rating_system import Game, InvalidGame, Number, Outcome, Side, State, Step


class GlickoPeriodState(NamedTuple):
    """The state of a player besides the rating."""

    #: In points; as grown to the period's start once a game of it is held.
    rd: float
    #: The number of the period whose games are held, or of the last one closed; 0 before the first.
    period: float = 0.0
    #: The games held, and the sums of g^2 E (1 - E) and of g (score - E).
    period_games: float = 0.0
    period_information: float = 0.0
    period_gain: float = 0.0

    @classmethod
    def of(cls, state: State) -> Self:
        """The standing in a state's `extra`."""
        return cls(*state.extra)

    def figures(self) -> dict[str, Number]:
        """Its values for an event, under their names with _before."""
        return {f"{name}_before": value for name, value in zip(self._fields, self, strict=True)}


class GlickoPeriods(Glicko):
    """Glicko by rating periods, with a ladder's settings."""

    name: ClassVar[str] = "glicko-periods"
    state_fields: ClassVar[tuple[str, ...]] = GlickoPeriodState._fields

    #: How long a period waits after its end for games of it that come late, in hours.
    grace_hours: Annotated[float, Field(ge=0, le=240)] = 1.0

    @property
    def period_grace(self) -> int:
        """The same in ms."""
        return round(self.grace_hours * 3_600_000)

    def initial(self) -> State:
        """A new player: the starting rating and RD, and no games held."""
        return State(self.start, extra=tuple(GlickoPeriodState(self.start_rd)))

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """Adds the game to both players' states; no rating changes yet.

        A late game goes into the period that is open; close what `closes_at` says is due beforehand.
        """
        own, other = (self._opened(state, game.finished_at) for state in (first, second))
        return self._both(first, own, second, other, game)

    def preview(self, first: State, second: State, game: Game) -> Outcome:
        """The change of a game as the only one of its period."""
        own, other = (
            GlickoPeriodState(opened.rd, opened.period)
            for opened in (self._opened(state, game.finished_at) for state in (first, second))
        )
        outcome = self._both(first, own, second, other, game)
        sides = []
        for state, held in zip((first, second), outcome.sides, strict=True):
            closed = self.close(state._replace(extra=held.extra))
            figures = {**held.figures, "rd_after": closed.figures["rd_after"]}
            sides.append(closed._replace(expected=held.expected, figures=figures))
        return outcome._replace(sides=(sides[0], sides[1]))

    def closes_at(self, state: State) -> int | None:
        """The end of the period whose games are held, in ms."""
        held = GlickoPeriodState.of(state)
        return (int(held.period) + 1) * self._period_ms if held.period_games else None

    def close(self, state: State) -> Side:
        """The rating and RD after the period's games, by the paper's steps 2 and 3."""
        held = GlickoPeriodState.of(state)
        if not held.period_games:
            return Side(0.0, state.rating, 0.0, extra=state.extra)
        rating, rd = posterior(state.rating, held.rd, held.period_information, held.period_gain)
        after = GlickoPeriodState(self._bounded(rd), held.period)
        change = rating - state.rating
        figures = {**held.figures(), "rd_after": after.rd}
        return Side(change, state.rating + change, 0.0, None, tuple(after), figures)

    def void(self, state: State, part: PlayerUpdate) -> State:
        """Removes a game from those held; raises InvalidGame once its period is closed.

        The games of a closed period were rated together, so that none has a change of its own.
        """
        held = GlickoPeriodState.of(state)
        if not held.period_games or held.period != part.figures["period"]:
            msg = "match_id: a game of a closed rating period cannot be taken out; they were rated together"
            raise InvalidGame(msg)
        if held.period_games == 1.0:
            left = GlickoPeriodState(part.figures["rd_before"], part.figures["period_before"])
        else:
            left = held._replace(
                period_games=held.period_games - 1.0,
                period_information=held.period_information - part.figures["information"],
                period_gain=held.period_gain - part.figures["gain"],
            )
        return state._replace(extra=tuple(left))

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures: of a game that is held, or of the end of a period."""
        steps: list[Step] = []
        if event.cause is Cause.PERIOD:
            for part in event.players:
                held = GlickoPeriodState(*(part.figures[f"{name}_before"] for name in self.state_fields))
                games = f"{held.period_games:g} games"
                steps.append(Step("information", games, f"{held.period_information:.6f}", part.player))
                steps.append(Step("gain", games, f"{held.period_gain:+.6f}", part.player))
                steps += posterior_steps(part, held.rd, held.period_information, held.period_gain)
            return steps
        for own, other in (event.players, event.players[::-1]):
            figures = own.figures
            count = figures["period_games_before"] + 1
            since = figures["period_before"]
            idle = figures["period"] - since if since and count == 1 else 0.0
            steps.append(self.grown_step(own, idle))
            steps += game_steps(own, other)
            if "rd_after" in figures:  # a preview: the only game of its period
                steps += posterior_steps(own, figures["rd"], figures["information"], figures["gain"])
                continue
            total = figures["period_gain_before"] + figures["gain"]
            steps.append(
                Step("held", "until the period ends", f"{total:+.6f} in {count:g} games", own.player)
            )
        return steps

    @property
    def _period_ms(self) -> int:
        return max(round(self.period_days * DAY_MS), 1)

    def _opened(self, state: State, at: int) -> GlickoPeriodState:
        """The standing with its period open for a game at a time in ms, its RD grown to the start."""
        held = GlickoPeriodState.of(state)
        if held.period_games:
            return held
        now = float(at // self._period_ms)
        if not held.period:
            return GlickoPeriodState(held.rd, now)
        period = max(now, held.period + 1.0)
        return GlickoPeriodState(
            self._bounded(rd_after_idle(held.rd, period - held.period, self.c, self.max_rd)), period
        )

    def _both(
        self, first: State, own: GlickoPeriodState, second: State, other: GlickoPeriodState, game: Game
    ) -> Outcome:
        sides = (
            self._held(first, own, Opponent(second.rating, other.rd, game.scores[0])),
            self._held(second, other, Opponent(first.rating, own.rd, game.scores[1])),
        )
        return Outcome("1", sides)

    def _held(self, state: State, opened: GlickoPeriodState, game: Opponent) -> Side:
        information, gain = accumulate(state.rating, [game])
        added = GlickoPeriodState(
            opened.rd,
            opened.period,
            opened.period_games + 1.0,
            opened.period_information + information,
            opened.period_gain + gain,
        )
        figures = GlickoPeriodState.of(state).figures()
        figures |= {"rd": opened.rd, "period": opened.period, "information": information, "gain": gain}
        chance = expected_score(state.rating, game.rating, game.rd)
        return Side(0.0, state.rating, chance, None, tuple(added), figures)
