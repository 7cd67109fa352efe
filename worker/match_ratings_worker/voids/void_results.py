"""Results of voiding matches: the status of each, and the points that the players get back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Number


class VoidStatus(StrEnum):
    """Status of a match that is to be voided."""

    #: It can be voided.
    RATED = "rated"
    VOIDED = "voided"
    #: It had been voided before.
    ALREADY = "already-voided"
    #: Nothing is known of it.
    UNKNOWN = "unknown"
    #: It changed no rating, or has not yet.
    NOT_RATED = "not-rated"
    #: It was rated, but its event is no longer in Redis.
    NOT_KEPT = "not-kept"
    #: The workers, or the system's rules, refuse it.
    REFUSED = "refused"
    #: Its void message waits in the inbox.
    WAITING = "waiting"

    @property
    def done(self) -> bool:
        """Whether the match is voided, now or before."""
        return self in (VoidStatus.VOIDED, VoidStatus.ALREADY)


@dataclass(frozen=True, slots=True)
class VoidResult:
    """A match and the status of its void."""

    match_id: str
    status: VoidStatus
    #: The match's own event, and the event that voided it.
    match: RatingUpdated | None = None
    void: RatingUpdated | None = None
    #: One sentence; empty when there is nothing to add.
    detail: str = ""
    #: Inbox id of its void message; empty before it is sent.
    message_id: str = ""

    def document(self) -> dict[str, Any]:
        """A JSON object, without empty fields."""
        found: dict[str, Any] = {"match_id": self.match_id, "outcome": self.status.value}
        if self.detail:
            found["detail"] = self.detail
        if self.match is not None:
            found["match_event"] = self.match.id
        if self.message_id:
            found["message_id"] = self.message_id
        if self.void is not None:
            found |= {"void_event": self.void.id, "why": self.void.why}
            found["players"] = [
                {"player": part.player, "before": part.before, "change": part.change, "after": part.after}
                for part in self.void.players
            ]
        return found


class Refunds:
    """Rating points that a player and each opponent get back."""

    def __init__(self, player: str, events: Iterable[RatingUpdated], *, planned: bool = False) -> None:
        """`events` are the void events or, if `planned`, those of the matches to be voided."""
        #: The player's own points.
        self.change: Number = 0
        #: Opponent -> number of matches.
        self.matches: Counter[str] = Counter()
        self._points: dict[str, Number] = {}
        for event in events:
            for part in event.players:
                points = -part.change if planned else part.change
                if part.player == player:
                    self.change += points
                else:
                    self.matches[part.player] += 1
                    self._points[part.player] = self._points.get(part.player, 0) + points

    @property
    def opponents(self) -> list[tuple[str, int, Number]]:
        """Opponent, number of matches and points, most points first."""
        ordered = sorted(self._points.items(), key=lambda item: (-item[1], item[0]))
        return [(name, self.matches[name], points) for name, points in ordered]

    def document(self) -> dict[str, Any]:
        """A JSON object of the own `change` and the `opponents`."""
        opponents = [
            {"player": name, "matches": matches, "change": points} for name, matches, points in self.opponents
        ]
        return {"change": self.change, "opponents": opponents}
