"""A player's matches that are to be taken back, and what everybody gets back for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Number, RatingSystem
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.voids.find_match import games_of, refusals
from match_ratings_worker.voids.void_outcome import Outcome, Verdict

__all__ = ["Plan", "Refunds", "plan_for"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A player's matches that can be taken back, in the order to do it in, and those that cannot."""

    player: str
    matches: list[RatingUpdated]
    refused: list[Outcome]


async def plan_for(
    redis: Redis, keys: Keys, system: RatingSystem, player: str, since: int, until: int | None
) -> Plan | None:
    """What there is to take back from `since` on and before `until` (ms); None for an unknown player."""
    if not await redis.exists(keys.player(player)):
        return None
    matches = await games_of(redis, keys, player, since, until)
    why_not = await refusals(redis, keys, system, matches)
    refused = [
        Outcome(match.match_id, Verdict.REFUSED, match, detail=why_not[match.match_id])
        for match in matches
        if match.match_id is not None and match.match_id in why_not
    ]
    return Plan(player, [match for match in matches if match.match_id not in why_not], refused)


class Refunds:
    """What the player and each opponent get back."""

    def __init__(self, player: str, voids: Iterable[RatingUpdated], *, planned: bool = False) -> None:
        """`voids` took matches back; or, `planned`, they are the matches that would be."""
        self.change: Number = 0
        #: Opponent -> matches, and rating points.
        self.matches: Counter[str] = Counter()
        self._points: dict[str, Number] = {}
        for event in voids:
            for part in event.players:
                points = -part.change if planned else part.change
                if part.player == player:
                    self.change += points
                else:
                    self.matches[part.player] += 1
                    self._points[part.player] = self._points.get(part.player, 0) + points

    @property
    def opponents(self) -> list[tuple[str, int, Number]]:
        """Opponent, matches and points, those who get most first."""
        ordered = sorted(self._points.items(), key=lambda item: (-item[1], item[0]))
        return [(name, self.matches[name], points) for name, points in ordered]

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        opponents = [
            {"player": name, "matches": matches, "change": points} for name, matches, points in self.opponents
        ]
        return {"change": self.change, "opponents": opponents}
