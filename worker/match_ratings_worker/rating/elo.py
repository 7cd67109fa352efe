"""The logistic curve of Elo's system, and the roundings that the published rules ask for.

    expected(own, opponent) = 1 / (1 + 10^((opponent - own) / divisor))

Source: A. Elo, "The Rating of Chessplayers, Past and Present"; the divisor is 400 there.
"""

from __future__ import annotations

import math


def expected(own: float, opponent: float, divisor: float) -> float:
    """The score, 0..1, that a player is expected to make: 1 / (1 + 10^((opponent - own) / divisor)).

    A gap too large for a float gives 0, as an infinite power does in the sites' own Go.
    """
    try:
        return 1.0 / (1.0 + math.pow(10.0, (opponent - own) / divisor))
    except OverflowError:
        return 0.0


def round_half_away(value: float) -> int:
    """The nearest whole number, halves away from zero, like Go's math.Round.

    Python's round() takes halves to even, and floor(x + 0.5) turns 0.49999999999999994 into 1.
    """
    whole = math.trunc(value)
    if abs(value - whole) >= 0.5:
        return whole + (1 if value > 0 else -1)
    return whole


def round_div(numerator: int, denominator: int) -> int:
    """numerator / denominator (positive) to the nearest whole number, halves away from zero; exact."""
    whole = (2 * abs(numerator) + denominator) // (2 * denominator)
    return whole if numerator >= 0 else -whole
