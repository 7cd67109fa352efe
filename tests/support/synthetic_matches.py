"""Players whose true strength is known, and matches that they played."""

from __future__ import annotations

import random
from collections.abc import Sequence

from match_ratings_worker.evaluation import Match, Prediction
from match_ratings_worker.rating.elo import expected

START = 1_780_000_000_000


def matches(
    count: int,
    *,
    divisor: float,
    players: int = 200,
    seed: int = 1,
    spread: float = 150.0,
    draws: float = 0.0,
) -> list[Match]:
    """Matches between players of normally distributed strength, a minute apart, with results by the curve."""
    dice = random.Random(seed)
    strength = {f"p{number}": dice.gauss(1500, spread) for number in range(players)}
    names = list(strength)
    found = []
    for number in range(count):
        first, second = dice.sample(names, 2)
        won = dice.random() < expected(strength[first], strength[second], divisor)
        score = 0.5 if dice.random() < draws else float(won)
        cube, length = dice.choice([1, 1, 1, 2, 4]), dice.choice([1, 3, 5, 7])
        found.append(Match(f"m{number}", (first, second), score, START + number * 60_000, cube, length))
    return found


def predictions(count: int, *, true: float, used: float, seed: int = 1) -> Sequence[Prediction]:
    """What a curve with the divisor `used` expects of results that come by the divisor `true`."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        gap = dice.gauss(0, 200)
        score = float(dice.random() < expected(gap, 0, true))
        found.append(Prediction(START + number, expected(gap, 0, used), score, gap, gap, 100))
    return found
