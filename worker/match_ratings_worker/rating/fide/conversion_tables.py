"""FIDE's two conversion tables as data, and their look-up.

Source: FIDE Handbook, B.02 Rating Regulations, tables 8.1.1 (score share -> rating difference) and
8.1.2 (rating difference -> expected score). Both go up to whole hundredths, so integers hold them exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Table 8.1.2: the largest rating difference at which the stronger player's expected score is 50, 51,
#: ..., 99 hundredths; beyond the last it is 100.
_LARGEST: Final = (
    *(3, 10, 17, 25, 32, 39, 46, 53, 61, 68),  # 0.50 ... 0.59
    *(76, 83, 91, 98, 106, 113, 121, 129, 137, 145),  # 0.60 ... 0.69
    *(153, 162, 170, 179, 188, 197, 206, 215, 225, 235),  # 0.70 ... 0.79
    *(245, 256, 267, 278, 290, 302, 315, 328, 344, 357),  # 0.80 ... 0.89
    *(374, 391, 411, 432, 456, 484, 517, 559, 619, 735),  # 0.90 ... 0.99
)

#: Table 8.1.1: the rating difference for a score share of 50, 51, ..., 100 hundredths.
_DIFFERENCE: Final = (
    *(0, 7, 14, 21, 29, 36, 43, 50, 57, 65),  # 0.50 ... 0.59
    *(72, 80, 87, 95, 102, 110, 117, 125, 133, 141),  # 0.60 ... 0.69
    *(149, 158, 166, 175, 184, 193, 202, 211, 220, 230),  # 0.70 ... 0.79
    *(240, 251, 262, 273, 284, 296, 309, 322, 336, 351),  # 0.80 ... 0.89
    *(366, 383, 401, 422, 444, 470, 501, 538, 589, 677),  # 0.90 ... 0.99
    800,
)


def expected_hundredths(difference: int) -> int:
    """The expected score in hundredths, 0..100, for a rating difference in points (own - opponent's)."""
    stronger = 50 + bisect_left(_LARGEST, abs(difference))
    return stronger if difference >= 0 else 100 - stronger


def rating_difference(share: int) -> int:
    """dp, in points, for a score share in hundredths, 0..100; raises ValueError outside."""
    if not 0 <= share <= 100:
        msg = f"share: {share} is not allowed; hundredths from 0 to 100 are"
        raise ValueError(msg)
    return _DIFFERENCE[share - 50] if share >= 50 else -_DIFFERENCE[50 - share]
