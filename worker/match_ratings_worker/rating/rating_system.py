"""The base class of rating systems: pure rules from two players' states and a game to two new states.

No system does I/O or looks at a clock. A system is a frozen pydantic model whose fields are the
ladder's settings for it, so that a wrong setting is refused with its name when the worker starts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from match_ratings import PlayerUpdate, RatingUpdated

#: A rating or a change: whole in systems of whole numbers, so that 1500 stays 1500.
Number = int | float

#: The stored fields of every player; a system's own fields follow them.
STATE_FIELDS: Final = ("rating", "sequence", "games", "last_game")


class InvalidGame(ValueError):
    """A game that this system cannot rate because it makes no sense in it; the text says why."""


class State(NamedTuple):
    """A player's standing in one ladder."""

    rating: Number
    #: Ranked games rated so far.
    games: int = 0
    #: When the latest of them finished, in ms; 0 before the first.
    last_game: int = 0
    #: The values of the system's own fields, in the order of `RatingSystem.state_fields`.
    extra: tuple[float, ...] = ()


class Game(NamedTuple):
    """A finished ranked game: everything that can affect a rating."""

    #: When it finished, in ms since 1970.
    finished_at: int
    #: Each side's score: 1 won, 0 lost, 0.5 drew.
    scores: tuple[float, float]
    #: Each side's ranked games that finished in the 7 days before this one.
    recent_games: tuple[int, int] = (0, 0)
    #: The doubling cube's value.
    cube: int = 1
    #: The match's length in points; None for an unlimited one.
    length: int | None = None


class Side(NamedTuple):
    """One player's part of an outcome, with the figures that made it."""

    change: Number
    rating: Number
    expected: float
    k: Number | None = None
    #: The new values of the system's own fields.
    extra: tuple[float, ...] = ()
    #: Further figures for the event.
    figures: Mapping[str, Number] = {}


class Outcome(NamedTuple):
    """The result of rating a game: both sides, and the figures they share."""

    #: The version of the rules that was applied.
    rules: str
    sides: tuple[Side, Side]
    #: The factor that the cube gave; None in systems without one.
    coefficient: float | None = None
    #: Further figures for the event.
    figures: Mapping[str, Number] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of an explanation: a figure, its formula with numbers, and the result."""

    label: str
    formula: str
    result: str
    player: str | None = field(default=None)


class RatingSystem(BaseModel, ABC):
    """A rating system with a ladder's settings for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The name that a ladder's configuration and the events use.
    name: ClassVar[str]
    #: The values of a player's state besides the rating: hash fields in Redis.
    state_fields: ClassVar[tuple[str, ...]] = ()
    #: Whether ratings are whole numbers.
    integer_ratings: ClassVar[bool] = False
    #: Fields of a match, besides players, winner, mode and time, that a rating depends on.
    depends_on: ClassVar[tuple[str, ...]] = ()
    #: Whether the order of the players matters.
    order_matters: ClassVar[bool] = False
    #: Whether a game can end in a draw.
    draws: ClassVar[bool] = False
    #: The versions of the rules, oldest first.
    versions: ClassVar[tuple[str, ...]] = ("1",)
    #: Settings that carry their own dates (version -> ms): they may change while a ladder is in use.
    dated: ClassVar[tuple[str, ...]] = ()
    #: Settings that change who is shown where, and no rating.
    cosmetic: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def initial(self) -> State:
        """The state of a player who has not played yet."""

    def accepts(self, game: Game) -> bool:
        """Whether a ranked game counts here at all; one that does not is set aside."""
        return True

    @abstractmethod
    def rate(self, first: State, second: State, game: Game) -> Outcome:
        """The outcome of a game for both sides; raises InvalidGame when it makes no sense here."""

    @abstractmethod
    def explain(self, event: RatingUpdated) -> Sequence[Step]:
        """Every step of the formula written out with the figures of an event with cause `match`."""

    def rules_at(self, finished_at: int) -> str:
        """The version of the rules in force at a time in ms."""
        return "1"

    def preview(self, first: State, second: State, game: Game) -> Outcome:
        """The outcome of a game by itself, to show before it is played.

        The same as `rate`, except where changes wait for the end of a rating period.
        """
        return self.rate(first, second, game)

    @property
    def period_grace(self) -> int | None:
        """How long a rating period waits after its end for games of it that come late, in ms.

        None in systems that rate by game.
        """
        return None

    def closes_at(self, state: State) -> int | None:
        """When the rating period ends whose games this state still holds unrated, in ms.

        None when it holds none, as always in systems that rate by game. From that time on, and before
        a game that finished at or after it, the player's games are to be closed.
        """
        return None

    def close(self, state: State) -> Side:
        """The end of a rating period for one player: the change that the games held in `state` make.

        For the same state always the same; closing twice changes nothing more.
        """
        return Side(0, state.rating, 0.0, extra=state.extra)

    def void(self, state: State, part: PlayerUpdate) -> State:
        """The state after taking back a match, whose event had this part for the player."""
        return state._replace(rating=state.rating - part.change)

    def award(self, state: State, points: int) -> State:
        """The state after a prize in rating points: the rating moves, nothing else does."""
        return state._replace(rating=state.rating + points)

    def divisor_at(self, finished_at: int) -> float:
        """The rating difference at which this system expects odds of 10 to 1, in points, at a time in ms."""
        return 400.0

    def effective_difference(self, own: float, opponent: float, expected: float, finished_at: int) -> float:
        """How much of the rating difference counts towards an expected score, in points.

        The difference itself, where the expected score follows from nothing else.
        """
        return own - opponent

    def rated(self, state: State) -> bool:
        """Whether the player has a rating; one that is made of too few games may be none yet."""
        return True

    def on_leaderboard(self, state: State) -> bool:
        """Whether a player in this state is on the leaderboard."""
        return True

    def parse_rating(self, text: str | bytes) -> Number:
        """A stored rating as a number of this system's kind."""
        return int(text) if self.integer_ratings else float(text)

    def recompute(self, event: RatingUpdated) -> Outcome:
        """The outcome that an event's own figures give; for an event with cause `match`."""
        first, second = event.players
        game = Game(
            finished_at=event.finished_at,
            scores=(float(first.score or 0), float(second.score or 0)),
            recent_games=(first.recent_games or 0, second.recent_games or 0),
            cube=event.cube or 1,
            length=int(event.figures["length"]) if "length" in event.figures else None,
        )
        return self.with_rules(event.rules).rate(self.state_before(first), self.state_before(second), game)

    def with_rules(self, rules: str) -> RatingSystem:
        """This system with one version of its rules for games of any time, to recompute old events.

        A system whose rules never changed, or change by the game's own date, is its own.
        """
        return self

    def recompute_close(self, part: PlayerUpdate) -> Side:
        """What closing a period gives by the figures of its event's own player part."""
        return self.close(self.state_before(part))

    def state_before(self, part: PlayerUpdate) -> State:
        """The state before an event, from its figures; one that is missing stood at its start."""
        start = zip(self.state_fields, self.initial().extra, strict=True)
        return State(
            rating=part.before,
            games=int(part.figures.get("games", 0)),
            last_game=int(part.figures.get("last_game", 0)),
            extra=tuple(float(part.figures.get(f"{name}_before", value)) for name, value in start),
        )


def difference(expected: float, divisor: float) -> float:
    """The rating difference in points that makes a score expected: divisor * log10(E / (1 - E)).

    For 0 and 1, which no finite difference makes, that of odds of a million to one.
    """
    chance = min(max(expected, 1e-6), 1.0 - 1e-6)
    return divisor * math.log10(chance / (1.0 - chance))
