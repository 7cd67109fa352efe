"""Every outcome of a match before it is played.

Pure library functions; results are frozen dataclasses that `dataclasses.asdict` turns into JSON. Wrong
input raises ValueError (InvalidGame where the system itself refuses) with the field and what is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

from match_ratings.messages import CUBES
from match_ratings_worker.rating import Game, Number, RatingSystem, Side, State

#: The match lengths, in points, that a preview shows where a system depends on them.
LENGTHS: Final = (1, 3, 5, 7, 9, 11)
Result = Literal["win", "draw", "loss"]
_SCORES: Final[dict[Result, tuple[float, float]]] = {"win": (1, 0), "draw": (0.5, 0.5), "loss": (0, 1)}


@dataclass(frozen=True, slots=True)
class PreviewSide:
    """The effect of a result on one player."""

    before: Number
    change: Number
    after: Number
    #: The score that the system expects of this player, 0..1.
    expected: float
    k: Number | None
    #: The system's own fields that change, such as a rating deviation, and their new values.
    fields: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One result, and one value of the cube or one match length where the system has them."""

    #: The first player's result.
    result: Result
    cube: int | None
    length: int | None
    coefficient: float | None
    first: PreviewSide
    second: PreviewSide


def preview(
    system: RatingSystem,
    players: tuple[State, State],
    *,
    at: int,
    cubes: Sequence[int] = CUBES,
    lengths: Sequence[int] = LENGTHS,
    recent_games: tuple[int, int] = (0, 0),
) -> list[PreviewRow]:
    """Every result of a game that finishes at `at` (ms), side by side.

    For each cube value or match length if the system depends on it, with draws if it has them.
    Systems that rate by period show the change that the game would make as the only one of its period.
    """
    _check("cubes", cubes, CUBES)
    _check("lengths", lengths, range(1, 1001))
    if min(recent_games) < 0:
        msg = f"recent_games: {min(recent_games)} is not allowed; a number of games from 0 is"
        raise ValueError(msg)
    cube_values: Sequence[int | None] = cubes if "cube" in system.depends_on else (None,)
    length_values: Sequence[int | None] = lengths if "length" in system.depends_on else (None,)
    results = [result for result in _SCORES if system.draws or result != "draw"]
    rows = []
    for cube, length, result in product(cube_values, length_values, results):
        game = Game(at, _SCORES[result], recent_games, cube or 1, length)
        outcome = system.preview(*players, game)
        one, two = (
            _preview_side(system, state, side) for state, side in zip(players, outcome.sides, strict=True)
        )
        rows.append(PreviewRow(result, cube, length, outcome.coefficient, one, two))
    return rows


def _preview_side(system: RatingSystem, state: State, side: Side) -> PreviewSide:
    own = zip(system.state_fields, state.extra, side.extra, strict=True)
    changed = {name: after for name, before, after in own if after != before}
    return PreviewSide(state.rating, side.change, side.rating, side.expected, side.k, changed)


def _check(name: str, values: Sequence[int], allowed: Sequence[int]) -> None:
    for value in values:
        if value not in allowed:
            shown = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else str(allowed)[1:-1]
            msg = f"{name}: {value} is not allowed; {shown} is"
            raise ValueError(msg)
