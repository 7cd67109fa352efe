"""The rating systems: pure rules, one module each."""

from worker.rating.backgammon import Backgammon
from worker.rating.base import Game, InvalidGame, Number, Outcome, RatingSystem, Side, State, Step
from worker.rating.fibs import Fibs
from worker.rating.fide import Fide
from worker.rating.glicko import Glicko
from worker.rating.glicko2 import Glicko2
from worker.rating.glicko_periods import GlickoPeriods

__all__ = [
    "SYSTEMS",
    "Backgammon",
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

#: Every system by the name that a ladder's configuration uses.
SYSTEMS: dict[str, type[RatingSystem]] = {
    Backgammon.name: Backgammon,
    Fide.name: Fide,
    Fibs.name: Fibs,
    Glicko.name: Glicko,
    GlickoPeriods.name: GlickoPeriods,
    Glicko2.name: Glicko2,
}
