"""FIDE's expected score for a rating difference, with the 400-point rule.

Expected scores and gains (score - expected) are whole billionths of a point, so that sums are exact
and independent of their order: the table's hundredths are exact, the curve is taken to the nearest
billionth. Source: FIDE Handbook, B.02 Rating Regulations, chapters 8.1.2 and 8.3.1.
"""

from __future__ import annotations

from typing import Final, Literal

from match_ratings_worker.rating.elo import expected

from .conversion_tables import expected_hundredths

Expectation = Literal["table", "curve"]

#: Expected scores and gains are counted in billionths of a point.
SCALE: Final = 1_000_000_000
#: A larger rating difference counts as this one, in points ...
MAX_DIFFERENCE: Final = 400
#: ... but not for a player rated this high in a game from 1 October 2025 (ms since 1970) on.
UNCAPPED_RATING: Final = 2650
UNCAPPED_FROM: Final = 1_759_276_800_000


def capped_difference(own: int, opponent: int, finished_at: int) -> int:
    """The rating difference that counts for the player rated `own`, in points.

    One over 400 counts as 400, except, since 1 October 2025 by the game's time, for a player rated
    2650 or more. It is judged for each player separately.
    """
    difference = own - opponent
    if own >= UNCAPPED_RATING and finished_at >= UNCAPPED_FROM:
        return difference
    return max(-MAX_DIFFERENCE, min(MAX_DIFFERENCE, difference))


def expected_score(difference: int, expectation: Expectation) -> int:
    """The expected score in billionths for a counted difference: table 8.1.2 or 1/(1+10^(-D/400))."""
    if expectation == "table":
        return expected_hundredths(difference) * (SCALE // 100)
    return round(expected(difference, 0, 400) * SCALE)
