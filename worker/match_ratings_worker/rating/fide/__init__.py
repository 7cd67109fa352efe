"""FIDE's chess rating: the system, and its rules as functions of plain numbers."""

from .expected_score import SCALE, UNCAPPED_FROM, Expectation, capped_difference, expected_score
from .fide_system import Fide
from .k_factor import NEW_GAMES, k_factor, limited_k
from .months import month_end, month_of
from .performance import Performance, first_rating, halves, linear_performance, performance
from .period_state import FidePeriodState

__all__ = [
    "NEW_GAMES",
    "SCALE",
    "UNCAPPED_FROM",
    "Expectation",
    "Fide",
    "FidePeriodState",
    "Performance",
    "capped_difference",
    "expected_score",
    "first_rating",
    "halves",
    "k_factor",
    "limited_k",
    "linear_performance",
    "month_end",
    "month_of",
    "performance",
]
