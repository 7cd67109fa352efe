"""Evaluation of a rating system: calibration of its predictions, and backtests of other settings.

Pure: no I/O, no clock. `match_history` reads events and messages, `simulation` rates them again from the
start, `calibration` compares expected with actual scores, `backtest_trial` compares two simulations.
"""

from match_ratings_worker.evaluation.backgammon_variant import Variant
from match_ratings_worker.evaluation.backtest_trial import RatingSpread, Trial, WeeklySwing, run_trial
from match_ratings_worker.evaluation.calibration import Bin, Calibration, Fit, Sample, best_divisor, wilson
from match_ratings_worker.evaluation.match_history import (
    HistoryRecord,
    InitialState,
    LedgerReader,
    Match,
    PeriodEnd,
    Prize,
    Void,
    of_message,
)
from match_ratings_worker.evaluation.simulation import Prediction, Simulation

__all__ = [
    "Bin",
    "Calibration",
    "Fit",
    "LedgerReader",
    "Match",
    "PeriodEnd",
    "Prediction",
    "Prize",
    "HistoryRecord",
    "Simulation",
    "Sample",
    "RatingSpread",
    "InitialState",
    "WeeklySwing",
    "Trial",
    "Variant",
    "Void",
    "best_divisor",
    "of_message",
    "run_trial",
    "wilson",
]
