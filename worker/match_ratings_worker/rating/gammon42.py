"""The rating of the backgammon sites Gammon42, Tavla42 and Tavla24, by their published rules.

    expected(own, opponent) = 1 / (1 + 10^((opponent - own) / divisor))
    coefficient(cube)       = 1 + log2(cube) / 6
    change                  = round(K * (score - expected) * coefficient)

One game, two players, one winner. Ratings are whole points and start at 1500. K is each player's
own: 32, or 16 from 50 ranked games in the 7 days before the game. The rules changed over time; a
game is rated by those in force when it finished.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import BeforeValidator, Field, field_validator

from match_ratings import RatingUpdated
from match_ratings.messages import milliseconds

from .elo import expected, round_half_away
from .rating_system import Game, InvalidGame, Outcome, RatingSystem, Side, State, Step


class Rules(NamedTuple):
    """One version of the published rules."""

    version: str
    #: The rating difference, in points, at which the expected odds are 10 to 1.
    divisor: int
    k: int
    #: K for a player with `heavy_from` or more recent games; None where there was no such rule.
    heavy_k: int | None
    heavy_from: int
    #: Whether the cube multiplied the change directly instead of by the coefficient.
    cube_multiplies: bool


#: The published versions, oldest first.
HISTORY: Final = (
    Rules("1.0", divisor=400, k=32, heavy_k=None, heavy_from=0, cube_multiplies=True),
    Rules("1.0.5", divisor=400, k=32, heavy_k=None, heavy_from=0, cube_multiplies=False),
    Rules("1.2.0", divisor=800, k=32, heavy_k=None, heavy_from=0, cube_multiplies=False),
    Rules("1.3.1", divisor=1200, k=32, heavy_k=16, heavy_from=50, cube_multiplies=False),
)
#: Before any game, in ms.
_LONG_AGO: Final = 100_000_000_000
_BY_VERSION: Final = {rules.version: index for index, rules in enumerate(HISTORY)}


def coefficient(cube: int) -> float:
    """The cube's factor: 1 + log2(cube) / 6, from 1.0 for an unturned cube to 2.0 at 64."""
    return 1.0 + math.log2(cube) / 6.0


class Backgammon(RatingSystem):
    """The backgammon system with the dates on which its rules came into force."""

    name: ClassVar[str] = "backgammon"
    integer_ratings: ClassVar[bool] = True
    depends_on: ClassVar[tuple[str, ...]] = ("cube",)
    dated: ClassVar[tuple[str, ...]] = ("rules",)
    versions: ClassVar[tuple[str, ...]] = tuple(_BY_VERSION)

    #: Every player's first rating, in points.
    start: Annotated[int, Field(ge=-100_000, le=100_000)] = 1500
    #: Version -> when it came into force. A game before the earliest is rated by the version before
    #: that one; with no dates at all the newest version rates every game.
    rules: dict[str, Annotated[int, BeforeValidator(milliseconds)]] = {}

    @field_validator("rules")
    @classmethod
    def _known_versions_in_order(cls, dates: dict[str, int]) -> dict[str, int]:
        for version in dates:
            if version not in _BY_VERSION:
                msg = f"{version!r} is not a version of the rules; known are {', '.join(_BY_VERSION)}"
                raise ValueError(msg)
        ordered = dict(sorted(dates.items(), key=lambda item: _BY_VERSION[item[0]]))
        times = list(ordered.values())
        if times != sorted(set(times)):
            msg = "a later version must come into force after an earlier one"
            raise ValueError(msg)
        return ordered

    @cached_property
    def _eras(self) -> tuple[tuple[int, Rules], ...]:
        """When each version came into force, newest first, so that the usual game finds its own at once."""
        eras = [(since, HISTORY[_BY_VERSION[version]]) for version, since in self.rules.items()]
        oldest = max(_BY_VERSION[next(iter(self.rules))] - 1, 0) if self.rules else len(HISTORY) - 1
        return (*reversed(eras), (-(2**63), HISTORY[oldest]))

    def rules_in_force(self, finished_at: int) -> Rules:
        """The rules for a game that finished at a time in ms."""
        for since, rules in self._eras:
            if finished_at >= since:
                return rules
        return self._eras[-1][1]

    def rules_at(self, finished_at: int) -> str:
        """The version of the rules in force at a time in ms."""
        return self.rules_in_force(finished_at).version

    def with_rules(self, rules: str) -> Backgammon:
        """This system with one version of the rules for games of any time."""
        if rules not in _BY_VERSION or all(era.version == rules for _, era in self._eras):
            return self
        return Backgammon(start=self.start, rules={rules: _LONG_AGO})

    def divisor_at(self, finished_at: int) -> float:
        """400, 800 or 1200, by the rules in force at a time in ms."""
        return float(self.rules_in_force(finished_at).divisor)

    def initial(self) -> State:
        """A new player: the starting rating and no games."""
        return State(self.start)

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """Both changes, each from its own K; raises InvalidGame for a draw."""
        if game.scores not in ((1, 0), (0, 1)):
            msg = "winner: null is a draw, which backgammon does not have; name the player who won"
            raise InvalidGame(msg)
        rules = self.rules_in_force(game.finished_at)
        factor = float(game.cube) if rules.cube_multiplies else coefficient(game.cube)
        if game.scores[0]:
            chance = expected(first.rating, second.rating, rules.divisor)
            chances = (chance, 1.0 - chance)
        else:
            chance = expected(second.rating, first.rating, rules.divisor)
            chances = (1.0 - chance, chance)
        sides = []
        for state, score, own, recent in zip(
            (first, second), game.scores, chances, game.recent_games, strict=True
        ):
            k = rules.heavy_k if rules.heavy_k is not None and recent >= rules.heavy_from else rules.k
            change = round_half_away(k * (score - own) * factor)
            sides.append(Side(change, state.rating + change, own, k))
        return Outcome(rules.version, (sides[0], sides[1]), factor, {"divisor": rules.divisor})

    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """The formula with this event's figures: the cube's factor, then each player's change."""
        rules = HISTORY[_BY_VERSION[event.rules]]
        cube = event.cube or 1
        factor = event.coefficient if event.coefficient is not None else coefficient(cube)
        shown = f"{cube}" if rules.cube_multiplies else f"1 + log2({cube}) / 6"
        steps = [Step("coefficient", shown, f"{factor:.4f}")]
        for own, other in (event.players, event.players[::-1]):
            name = own.player
            score, chance, k = own.score or 0, own.expected or 0.0, own.k or 0
            exact = k * (score - chance) * factor
            if rules.heavy_k is None:
                why = "the same for everyone"
            else:
                sign = ">=" if (own.recent_games or 0) >= rules.heavy_from else "<"
                why = f"{own.recent_games} games in 7 days {sign} {rules.heavy_from}"
            winner, loser = (own, other) if score else (other, own)
            curve = f"1 / (1 + 10^(({loser.before} - {winner.before}) / {rules.divisor}))"
            steps += [
                Step("expected", curve if score else f"1 - {curve}", f"{chance:.4f}", name),
                Step("K", why, f"{k}", name),
                Step("change", f"{k} x ({score:g} - {chance:.4f}) x {factor:.4f}", f"{exact:+.4f}", name),
                Step("rounded", "half away from zero", f"{own.change:+}", name),
                Step("rating", f"{own.before} {own.change:+}", f"{own.after}", name),
            ]
        return steps
