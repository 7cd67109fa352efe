"""The backgammon rules with figures that were never published, to try out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from match_ratings_worker.rating import HISTORY, Backgammon, Rules

_NEWEST = HISTORY[-1]


class BackgammonVariant(Backgammon):
    """The newest rules with another divisor or K, for games of any time. For backtests alone."""

    #: The rating difference, in points, at which the expected odds are 10 to 1.
    divisor: Annotated[int, Field(ge=1, le=100_000)] = _NEWEST.divisor
    k: Annotated[int, Field(ge=1, le=1000)] = _NEWEST.k
    #: K for a player with `heavy_from` or more ranked games in 7 days; 0 for no such rule.
    heavy_k: Annotated[int, Field(ge=0, le=1000)] = _NEWEST.heavy_k or 0
    heavy_from: Annotated[int, Field(ge=1, le=100_000)] = _NEWEST.heavy_from

    def rules_in_force(self, finished_at: int) -> Rules:
        """These figures, whenever the game finished."""
        return Rules(
            _NEWEST.version,
            self.divisor,
            self.k,
            self.heavy_k or None,
            self.heavy_from,
            cube_multiplies=False,
        )
