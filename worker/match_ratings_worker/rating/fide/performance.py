"""FIDE's performance rating, and an unrated player's first rating.

Source: FIDE Handbook, B.02 Rating Regulations, chapters 8.2 and 8.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from match_ratings_worker.rating.elo import round_div

from .conversion_tables import rating_difference

#: A first rating needs this many games against rated players, and is at most 2200 points.
FIRST_GAMES: Final = 5
FIRST_MAXIMUM: Final = 2200
#: ... and counts this many draws against players of 1800 besides.
_EXTRA_DRAWS: Final = 2
_EXTRA_RATING: Final = 1800


class Performance(NamedTuple):
    """A performance rating and the figures that made it."""

    games: int
    score: float
    #: The opponents' average rating, in points.
    average: float
    #: The score share that was looked up, in hundredths; None for the linear approximation.
    share: int | None
    #: The difference added to the average, in points.
    difference: float
    #: Their sum, rounded half away from zero.
    rating: int


class FirstRating(NamedTuple):
    """An unrated player's first rating, and the figures that made it."""

    performance: Performance
    #: The performance, at most 2200.
    computed: int
    #: The rating that is published; None while there are too few games or it is under the floor.
    rating: int | None


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
    rating = round_div(sum(opponents) + gained, games)
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
    share = round_div(50 * half_points, games)
    difference = rating_difference(share)
    rating = round_div(total + difference * games, games)
    return Performance(games, half_points / 2, total / games, share, difference, rating)


def _need_games(opponents: Sequence[int]) -> None:
    if not opponents:
        msg = "opponents: none are given; a performance needs at least one game"
        raise ValueError(msg)
