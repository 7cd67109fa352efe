"""How well a rating system predicts results, and what another one would have made of the same matches.

Pure: no I/O, no clock. `records` reads events and messages, `replay` rates them again from the start,
`calibration` compares expected with actual scores, `comparison` sets two replays side by side.
"""

from match_ratings_worker.evaluation.backgammon_variant import Variant
from match_ratings_worker.evaluation.backtest_trial import Spread, Swing, Trial, run_trial
from match_ratings_worker.evaluation.calibration import Bin, Calibration, Fit, Sample, best_divisor, wilson
from match_ratings_worker.evaluation.match_history import (
    LedgerReader,
    Match,
    PeriodEnd,
    Prize,
    Record,
    Start,
    Void,
    of_message,
)
from match_ratings_worker.evaluation.rate_again import Prediction, Replay

__all__ = [
    "Bin",
    "Calibration",
    "Fit",
    "LedgerReader",
    "Match",
    "PeriodEnd",
    "Prediction",
    "Prize",
    "Record",
    "Replay",
    "Sample",
    "Spread",
    "Start",
    "Swing",
    "Trial",
    "Variant",
    "Void",
    "best_divisor",
    "of_message",
    "run_trial",
    "wilson",
]
