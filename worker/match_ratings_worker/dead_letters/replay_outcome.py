"""What becomes of a dead letter that is replayed, and the sum of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from match_ratings import Reason

__all__ = ["Outcome", "Result", "Summary"]


class Outcome(StrEnum):
    """What became, or in a dry run would become, of a dead letter."""

    #: It changed ratings: as a match, as a tournament's prizes, or by taking a match back.
    RATED = "rated"
    PRIZE = "prize"
    VOIDED = "voided"
    #: It is known now, and by the rules it changes no rating.
    ASIDE = "not-rated-by-the-rules"
    #: The same content had its effect before.
    DUPLICATE = "already-rated"
    #: Other content with its id had its effect before; it is a dead letter again.
    CONFLICT = "conflict"
    #: It is a dead letter again, with one attempt more.
    STILL_WRONG = "still-wrong"
    #: It was left where it is: a replay cannot help now.
    PARKED = "parked"
    #: It was no longer there: replayed, edited or discarded by somebody else.
    GONE = "gone"
    #: It is in the inbox, and no worker has settled it yet.
    WAITING = "waiting"
    #: It was left where it is, since the replay ended before its turn.
    LEFT = "left"
    #: Only in a dry run: it depends on a message that is in the inbox now.
    UNDECIDED = "undecided"


_BY_RUN = {
    "rated": Outcome.RATED,
    "prize": Outcome.PRIZE,
    "voided": Outcome.VOIDED,
    "aside": Outcome.ASIDE,
    "duplicate": Outcome.DUPLICATE,
    f"dead:{Reason.CONFLICT}": Outcome.CONFLICT,
}


@dataclass(frozen=True, slots=True)
class Result:
    """One dead letter and what became of it."""

    #: The dead letter's id at the start.
    letter: str
    outcome: Outcome
    #: One sentence; "" when there is nothing to say.
    detail: str = ""
    #: The reason code, when it is a dead letter again.
    reason: str = ""
    #: Its id now, when it is a dead letter again.
    now: str = ""

    @classmethod
    def of_run(cls, letter: str, text: str) -> Result:
        """A result as the commit script wrote it into the run."""
        outcome = _BY_RUN.get(text)
        if outcome is not None:
            return cls(letter, outcome, reason=text.partition(":")[2])
        if text.startswith("moved"):
            return cls(letter, Outcome.WAITING)
        return cls(letter, Outcome.STILL_WRONG, reason=text.partition(":")[2] or text)

    def document(self) -> dict[str, Any]:
        """The result for JSON."""
        found = {"letter": self.letter, "outcome": self.outcome.value}
        extra = {"detail": self.detail, "reason": self.reason, "now": self.now}
        return {**found, **{name: value for name, value in extra.items() if value}}


@dataclass
class Summary:
    """Counts by outcome, in the order of `Outcome`."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    #: Reason -> letters, of those that are dead letters again.
    still_wrong: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result, count: int = 1) -> None:
        """Counts a result."""
        self.counts[result.outcome] += count
        if result.outcome is Outcome.STILL_WRONG:
            self.still_wrong[result.reason] += count

    @property
    def total(self) -> int:
        """All that were counted."""
        return self.counts.total()

    def document(self) -> dict[str, Any]:
        """The summary for JSON."""
        found: dict[str, Any] = {
            "outcomes": {item.value: self.counts[item] for item in Outcome if self.counts[item]}
        }
        if self.still_wrong:
            found["still_wrong"] = dict(self.still_wrong.most_common())
        return found

    def sentence(self) -> str:
        """The summary in one line."""
        parts = []
        for outcome in Outcome:
            if count := self.counts[outcome]:
                text = f"{outcome.value.replace('-', ' ')} {count}"
                if outcome is Outcome.STILL_WRONG:
                    by_reason = ", ".join(f"{name} {part}" for name, part in self.still_wrong.most_common())
                    text += f" ({by_reason})"
                parts.append(text)
        return ", ".join(parts) or "nothing"
