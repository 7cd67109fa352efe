"""FIDE's rating rules as functions of plain numbers; `fide.py` makes a rating system of them.

    change = K * (score - expected), summed over a rating period, rounded once, half away from zero

Expected scores and gains (score - expected) are whole billionths of a point, so that sums are exact
and independent of their order: the table's hundredths are exact, the curve is taken to the nearest
billionth. Source: FIDE Handbook, B.02 Rating Regulations, chapters 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from match_ratings_worker.rating.backgammon import expected
from match_ratings_worker.rating.fide.conversion_tables import expected_hundredths, rating_difference

__all__ = [
    "BILLION",
    "UNCAPPED_FROM",
    "NEW_GAMES",
    "Expectation",
    "FirstRating",
    "Performance",
    "Why",
    "capped_difference",
    "divide",
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

Expectation = Literal["table", "curve"]

#: Expected scores and gains are counted in billionths of a point.
BILLION: Final = 1_000_000_000
#: A larger rating difference counts as this one, in points ...
MAX_DIFFERENCE: Final = 400
#: ... but not for a player rated this high in a game from 1 October 2025 (ms since 1970) on.
UNCAPPED_RATING: Final = 2650
UNCAPPED_FROM: Final = 1_759_276_800_000
#: A player is new until events of this many games are complete.
NEW_GAMES: Final = 30
#: K times the games of a period may not be over this.
MAX_K_GAMES: Final = 700
#: A first rating needs this many games against rated players, and is at most 2200 points.
FIRST_GAMES: Final = 5
FIRST_MAXIMUM: Final = 2200
#: ... and counts this many draws against players of 1800 besides.
_EXTRA_DRAWS: Final = 2
_EXTRA_RATING: Final = 1800
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Why(NamedTuple):
    """A K and the rule that gave it."""

    k: int
    rule: str


class Performance(NamedTuple):
    """A performance rating and the figures that made it."""

    games: int
    score: float
    #: The opponents' average rating, in points.
    average: float
    #: The score share that was looked up, in hundredths; None for the linear approximation.
    share: int | None
    #: What is added to the average, in points.
    difference: float
    #: Their sum, rounded half away from zero.
    rating: int


class FirstRating(NamedTuple):
    """What an unrated player's games come to, and the figures that made it."""

    performance: Performance
    #: The performance, at most 2200.
    computed: int
    #: The rating that is published; None while there are too few games or it is under the floor.
    rating: int | None


def divide(numerator: int, denominator: int) -> int:
    """numerator / denominator (positive) to the nearest whole number, halves away from zero; exact."""
    whole = (2 * abs(numerator) + denominator) // (2 * denominator)
    return whole if numerator >= 0 else -whole


def month_of(at: int) -> int:
    """The month (UTC) of a time in ms, as year * 100 + month: 202610."""
    day = _EPOCH + timedelta(milliseconds=at)
    return day.year * 100 + day.month


def month_end(month: int) -> int:
    """When a month such as 202610 ends (UTC): the first ms of the next, since 1970."""
    year, number = divmod(month, 100)
    end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return (end - _EPOCH) // timedelta(milliseconds=1)


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
        return expected_hundredths(difference) * (BILLION // 100)
    return round(expected(difference, 0, 400) * BILLION)


def k_factor(*, peak: int, games: int, birth_year: int | None, year: int) -> Why:
    """K by FIDE's rules, before the 700 rule.

    `peak` is the highest published rating ever, `games` those of complete events or periods, `year`
    the year of the games. 10 once the peak is 2400; else 40 until the end of the year of the 18th
    birthday while the peak is under 2300; else 40 for a new player; else 20.
    """
    if peak >= 2400:
        return Why(10, f"a published rating has reached 2400 (peak {peak})")
    if birth_year is not None and year - birth_year <= 18 and peak < 2300:
        return Why(
            40, f"born {birth_year}: until the end of {birth_year + 18}, never rated 2300 (peak {peak})"
        )
    if games < NEW_GAMES:
        return Why(40, f"new: {games} games complete, fewer than {NEW_GAMES}")
    return Why(20, f"{games} games complete, never rated 2400 (peak {peak})")


def limited_k(k: int, games: int) -> int:
    """The 700 rule: the largest whole K for which K x games in the period is not over 700.

    Over 700 games leave a K of 0.
    """
    return k if k * games <= MAX_K_GAMES else MAX_K_GAMES // games


def halves(score: float, games: int) -> int:
    """A score in half points; raises ValueError unless it is 0, 0.5, ..., `games`."""
    doubled = score * 2
    if not 0 <= doubled <= games * 2 or doubled != int(doubled):
        msg = f"score: {score:g} is not allowed; with {games} games it is 0 to {games} in steps of 0.5"
        raise ValueError(msg)
    return int(doubled)


def performance(opponents: Sequence[int], score: float) -> Performance:
    """The average of the opponents' ratings + dp of the score share (table 8.1.1).

    The share is taken to the nearest hundredth, halves up. Raises ValueError without opponents or for
    an impossible score.
    """
    _need_games(opponents)
    return _performance(sum(opponents), len(opponents), halves(score, len(opponents)))


def linear_performance(opponents: Sequence[int], score: float) -> Performance:
    """The linear approximation: average + 400 (wins - losses) / games.

    Raises ValueError without opponents, for an impossible score, and at 100 % and 0 %, where it breaks.
    """
    _need_games(opponents)
    games, half_points = len(opponents), halves(score, len(opponents))
    if half_points in (0, 2 * games):
        msg = (
            f"score: {score:g} of {games} is {50 * half_points // games} %, where the linear approximation "
            "breaks; use the table, or a score between 0 and 100 %"
        )
        raise ValueError(msg)
    gained = 400 * (half_points - games)
    rating = divide(sum(opponents) + gained, games)
    return Performance(games, score, sum(opponents) / games, None, gained / games, rating)


def first_rating(opponents: int, games: int, half_points: int, floor: int) -> FirstRating:
    """An unrated player's first rating, from the sum of the opponents' ratings and the score.

    Average of the opponents and of two draws against 1800, + dp; at most 2200; published from 5 games
    (those two not counted) and from the floor (1400) on.
    """
    reached = _performance(
        opponents + _EXTRA_DRAWS * _EXTRA_RATING, games + _EXTRA_DRAWS, half_points + _EXTRA_DRAWS
    )
    computed = min(reached.rating, FIRST_MAXIMUM)
    published = games >= FIRST_GAMES and computed >= floor
    return FirstRating(reached, computed, computed if published else None)


def _performance(total: int, games: int, half_points: int) -> Performance:
    share = divide(50 * half_points, games)
    difference = rating_difference(share)
    rating = divide(total + difference * games, games)
    return Performance(games, half_points / 2, total / games, share, difference, rating)


def _need_games(opponents: Sequence[int]) -> None:
    if not opponents:
        msg = "opponents: none are given; a performance needs at least one game"
        raise ValueError(msg)
