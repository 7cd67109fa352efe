"""A match between two players of a ladder before it is played, from their stored states.

Computed by the ladder's adopted settings, whatever this process is configured with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from match_ratings_worker.ladder_settings import adopted_system
from match_ratings_worker.queries import standing
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.storage import LadderHandle

from .match_outcomes import preview


class MatchPlayers(NamedTuple):
    """The stored states of a match's two players, and the system that rates them."""

    system: RatingSystem
    #: Each player's state, and ranked games in the 7 days before the match.
    states: list[tuple[State, int]]
    #: Players without a rating yet; their state is a new player's.
    new: list[str]


async def read_match_players(ladder: LadderHandle, names: Sequence[str], at: int) -> MatchPlayers:
    """Read the players of a match that finishes at `at` (ms).

    Raises RedisError, and queries.Unreadable for a state that cannot be read.
    """
    system = await adopted_system(ladder.redis, ladder.keys, ladder.system)
    found, new = [], []
    for name in names:
        known = await standing(replace(ladder, system=system), name, at)
        if known is None:
            new.append(name)
            found.append((system.initial(), 0))
            continue
        extra = tuple([known.figures[field] for field in system.state_fields])
        found.append((State(known.rating, known.games, known.last_game or 0, extra), known.recent_games))
    return MatchPlayers(system, found, new)


async def preview_on_ladder(
    ladder: LadderHandle, names: tuple[str, str], at: int, **choice: Any
) -> dict[str, Any]:
    """Every outcome of a match between two players that finishes at `at` (ms), ready for JSON.

    `choice` may narrow `cubes` and `lengths`. Raises ValueError for what is not allowed.
    """
    system, ((first, one), (second, two)), new = await read_match_players(ladder, names, at)
    rows = preview(system, (first, second), at=at, recent_games=(one, two), **choice)
    return {
        "system": system.name,
        "rules": system.rules_at(at),
        "players": list(names),
        "new": new,
        "outcomes": [asdict(row) for row in rows],
    }
