"""Evaluation of a rating system: calibration of its predictions, and backtests of other settings.

Pure: no I/O, no clock. `match_history` reads events and messages, `simulation` rates them again from the
start, `calibration` compares expected with actual scores, `backtest_trial` compares two simulations.
"""

from .backgammon_variant import BackgammonVariant
from .backtest_trial import RatingSpread, Trial, WeeklySwing, most_active, run_trial
from .calibration import Bin, Calibration, Fit, Sample, best_divisor, wilson
from .match_history import (
    HistoryRecord,
    InitialState,
    LedgerReader,
    Match,
    PeriodEnd,
    Prize,
    Void,
    of_message,
)
from .simulation import Prediction, Simulation, prediction_of

__all__ = [
    "BackgammonVariant",
    "Bin",
    "Calibration",
    "Fit",
    "HistoryRecord",
    "InitialState",
    "LedgerReader",
    "Match",
    "PeriodEnd",
    "Prediction",
    "Prize",
    "RatingSpread",
    "Sample",
    "Simulation",
    "Trial",
    "Void",
    "WeeklySwing",
    "best_divisor",
    "most_active",
    "of_message",
    "prediction_of",
    "run_trial",
    "wilson",
]
