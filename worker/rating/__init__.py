"""The rating systems: pure rules, one module each."""

from worker.rating.backgammon import Backgammon
from worker.rating.base import Game, InvalidGame, Number, Outcome, RatingSystem, Side, State, Step

__all__ = [
    "SYSTEMS",
    "Backgammon",
    "Game",
    "InvalidGame",
    "Number",
    "Outcome",
    "RatingSystem",
    "Side",
    "State",
    "Step",
]

#: Every system by the name that a ladder's configuration uses.
SYSTEMS: dict[str, type[RatingSystem]] = {system.name: system for system in (Backgammon,)}
