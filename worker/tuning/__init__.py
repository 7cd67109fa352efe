"""How well a rating system predicts results, and what another one would have made of the same matches.

Pure: no I/O, no clock. `records` reads events and messages, `replay` rates them again from the start,
`calibration` compares expected with actual scores, `comparison` sets two replays side by side.
"""

from worker.tuning.calibration import Bin, Calibration, Fit, Sample, best_divisor, wilson
from worker.tuning.comparison import Spread, Swing, Trial, run_trial
from worker.tuning.records import LedgerReader, Match, PeriodEnd, Prize, Record, Start, Void, of_message
from worker.tuning.replay import Prediction, Replay
from worker.tuning.variant import Variant

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
