"""The rating systems: pure rules, one module each. Plug-ins import from here."""

from typing import Final

from .fibs import Fibs
from .fide import Fide
from .gammon42 import HISTORY, Backgammon, Rules
from .glicko import Glicko
from .glicko2 import Glicko2
from .glicko_deviation import Opponent
from .glicko_periods import GlickoPeriods
from .rating_system import STATE_FIELDS, Game, InvalidGame, Number, Outcome, RatingSystem, Side, State, Step
from .system_registry import BrokenSystem, Systems

__all__ = [
    "Backgammon",
    "BrokenSystem",
    "Fibs",
    "Fide",
    "Final",
    "Game",
    "Glicko",
    "Glicko2",
    "GlickoPeriods",
    "HISTORY",
    "InvalidGame",
    "Number",
    "Opponent",
    "Outcome",
    "RatingSystem",
    "Rules",
    "STATE_FIELDS",
    "SYSTEMS",
    "Side",
    "State",
    "Step",
    "Systems",
]

#: Every system by the name that a ladder's configuration uses, those of other packages included.
SYSTEMS: Final = Systems(Backgammon, Fide, Fibs, Glicko, GlickoPeriods, Glicko2)
