"""The rating systems: pure rules, one module each. This is what a system of another package imports."""

from typing import Final

from worker.rating.backgammon import Backgammon
from worker.rating.base import Game, InvalidGame, Number, Outcome, RatingSystem, Side, State, Step
from worker.rating.fibs import Fibs
from worker.rating.fide import Fide
from worker.rating.glicko import Glicko
from worker.rating.glicko2 import Glicko2
from worker.rating.glicko_periods import GlickoPeriods
from worker.rating.registry import BrokenSystem, Systems

__all__ = [
    "SYSTEMS",
    "Backgammon",
    "BrokenSystem",
    "Fibs",
    "Fide",
    "Game",
    "Glicko",
    "Glicko2",
    "GlickoPeriods",
    "InvalidGame",
    "Number",
    "Outcome",
    "RatingSystem",
    "Side",
    "State",
    "Step",
]

#: Every system by the name that a ladder's configuration uses, those of other packages included.
SYSTEMS: Final = Systems(Backgammon, Fide, Fibs, Glicko, GlickoPeriods, Glicko2)
