"""What becomes of a match that is to be taken back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from match_ratings import RatingUpdated

__all__ = ["Outcome", "Verdict"]


class Verdict(StrEnum):
    """How it stands with taking a match back."""

    #: It can be taken back.
    RATED = "rated"
    #: It is taken back.
    VOIDED = "voided"
    #: It had been taken back before.
    ALREADY = "already-voided"
    #: Nothing of it is kept.
    UNKNOWN = "unknown"
    #: It changed no rating, or has not yet.
    NOT_RATED = "not-rated"
    #: It was rated, but its event is no longer in Redis.
    NOT_KEPT = "not-kept"
    #: The workers, or the system's rules, refuse it.
    REFUSED = "refused"
    #: Its message waits in the inbox.
    WAITING = "waiting"

    @property
    def done(self) -> bool:
        """Whether the match is taken back, which is what was asked for."""
        return self in (Verdict.VOIDED, Verdict.ALREADY)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A match, and how it stands with taking it back."""

    match_id: str
    verdict: Verdict
    #: The match's own event, and the one that took it back.
    match: RatingUpdated | None = None
    void: RatingUpdated | None = None
    #: One sentence, where there is more to say.
    detail: str = ""
    #: The message's id in the inbox, once it is sent.
    message_id: str = ""

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        found: dict[str, Any] = {"match_id": self.match_id, "outcome": self.verdict.value}
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
