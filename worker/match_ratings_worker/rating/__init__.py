"""The rating systems: pure rules, one module each. Plug-ins import from here."""

from typing import Final

from match_ratings_worker.rating.backgammon import HISTORY, Backgammon, Rules
from match_ratings_worker.rating.fibs import Fibs
from match_ratings_worker.rating.fide import Fide
from match_ratings_worker.rating.glicko import Glicko
from match_ratings_worker.rating.glicko2 import Glicko2
from match_ratings_worker.rating.glicko_periods import GlickoPeriods
from match_ratings_worker.rating.rating_deviation import Opponent
from match_ratings_worker.rating.rating_system import (
    STATE_FIELDS,
    Game,
    InvalidGame,
    Number,
    Outcome,
    RatingSystem,
    Side,
    State,
    Step,
)
from match_ratings_worker.rating.system_registry import BrokenSystem, Systems

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
