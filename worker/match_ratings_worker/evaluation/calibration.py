"""Expected against actual scores: by rating gap, in two figures of merit, and the divisor that fits best.

    log loss = mean of -(s ln p + (1 - s) ln(1 - p))        ln 2 = 0.6931 for p = 1/2 throughout
    Brier    = mean of (p - s)^2                            0.25 for p = 1/2 where there are no draws

p is the expected and s the actual score. The smaller, the better, of the same matches.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from .simulation import Prediction

#: The normal distribution's two-sided 95 %.
Z: Final = 1.959963984540054
#: No prediction counts as surer than this: one that was sure and wrong would be infinitely bad.
_SURE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Bin:
    """The matches with a rating gap from `low` to under `high` points (None: and more)."""

    low: float
    high: float | None
    matches: int
    #: The mean gap, and the favourite's mean expected and actual score.
    gap: float
    expected: float
    actual: float
    #: The 95 % interval of the actual score (Wilson).
    actual_low: float
    actual_high: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The divisor D for which 1 / (1 + 10^(-gap / D)) fits the results best, with its 95 % interval."""

    divisor: float
    low: float
    #: None when even a flat curve is within the interval.
    high: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well predictions fit results."""

    matches: int
    log_loss: float
    brier: float
    bins: tuple[Bin, ...]
    #: None when no divisor fits: too few results, or the weaker players win more often.
    fit: Fit | None


class Sample:
    """Predictions, kept small: four numbers each."""

    def __init__(self, predictions: Iterable[Prediction] = ()) -> None:
        self._expected, self._score = array("d"), array("d")
        self._gap, self._effective = array("d"), array("d")
        for prediction in predictions:
            self.add(prediction)

    def add(self, prediction: Prediction) -> None:
        """Add a prediction from the favourite's side (of equals, the first player's)."""
        _, expected, score, gap, effective_difference, _ = prediction
        if gap < 0:
            expected, score, gap, effective_difference = (
                1.0 - expected,
                1.0 - score,
                -gap,
                -effective_difference,
            )
        self._expected.append(expected)
        self._score.append(score)
        self._gap.append(gap)
        self._effective.append(effective_difference)

    def __len__(self) -> int:
        return len(self._score)

    def calibration(self, *, width: float = 50.0, most: int = 12) -> Calibration | None:
        """The comparison, in bins of `width` points, the last of at most `most` being open; None if empty."""
        if not self._score:
            return None
        loss = square = 0.0
        for expected, score in zip(self._expected, self._score, strict=True):
            loss += log_loss(expected, score)
            square += (expected - score) ** 2
        count = len(self)
        bins = tuple(self._bins(width, most))
        return Calibration(
            count, loss / count, square / count, bins, best_divisor(self._effective, self._score)
        )

    def _bins(self, width: float, most: int) -> Iterator[Bin]:
        sums: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
        for gap, expected, score in zip(self._gap, self._expected, self._score, strict=True):
            total = sums[min(int(gap / width), most - 1)]
            total[0] += 1
            total[1] += gap
            total[2] += expected
            total[3] += score
        for number in sorted(sums):
            count, gaps, expected, score = sums[number]
            low, high = wilson(score, count)
            open_ended = number == most - 1
            yield Bin(
                number * width,
                None if open_ended else (number + 1) * width,
                int(count),
                gaps / count,
                expected / count,
                score / count,
                low,
                high,
            )


def log_loss(expected: float, score: float) -> float:
    """How bad a prediction was: -(s ln p + (1 - s) ln(1 - p)), with p kept off 0 and 1."""
    chance = min(max(expected, _SURE), 1.0 - _SURE)
    return -score * math.log(chance) - (1.0 - score) * math.log1p(-chance)


def wilson(score: float, matches: float) -> tuple[float, float]:
    """The 95 % interval of a mean score, by Wilson's formula; draws, which vary less, make it too wide."""
    share, square = score / matches, Z * Z
    middle = (share + square / (2 * matches)) / (1 + square / matches)
    half = Z / (1 + square / matches) * math.sqrt(share * (1 - share) / matches + square / (4 * matches**2))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def best_divisor(gaps: Iterable[float], scores: Iterable[float]) -> Fit | None:
    """The divisor with the largest likelihood, for rating gaps in points and scores.

    With b = ln 10 / D it is logistic regression through the origin, whose likelihood has one maximum:
    Newton's method finds it, and its curvature there gives the interval b +- 1.96 / sqrt(curvature).
    """
    totals: defaultdict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for gap, score in zip(gaps, scores, strict=True):
        if gap:
            total = totals[gap]
            total[0] += 1
            total[1] += score
    slope = _slope([(gap, count, score) for gap, (count, score) in totals.items()])
    if slope is None:
        return None
    best, error = slope
    if best <= 0:
        return None
    low, high = best + Z * error, best - Z * error
    return Fit(math.log(10) / best, math.log(10) / low, math.log(10) / high if high > 0 else None)


def _slope(rows: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """The slope b of the curve, per point, and its standard error; None when there is no maximum."""
    slope, step = 0.0, math.inf
    for _ in range(100):
        gradient = curvature = 0.0
        for gap, count, score in rows:
            edge = slope * gap
            power = math.exp(-abs(edge))
            chance = (1.0 if edge >= 0 else power) / (1.0 + power)
            gradient += (score - count * chance) * gap
            curvature += count * chance * (1.0 - chance) * gap * gap
        if curvature < 1e-12:
            return None  # every result follows the ratings, or no gap tells anything
        if abs(step) < 1e-12 * abs(slope) + 1e-18:
            return slope, 1.0 / math.sqrt(curvature)
        step = gradient / curvature
        slope += min(max(step, -1.0), 1.0)
    return None
