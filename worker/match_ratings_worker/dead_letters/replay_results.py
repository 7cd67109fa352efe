"""Outcomes of replayed dead letters, for each letter and summed up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from match_ratings import Reason


class ReplayOutcome(StrEnum):
    """Outcome of a dead letter in a replay or a dry run."""

    #: It changed ratings: as a match, as a tournament's prizes, or by voiding a match.
    RATED = "rated"
    PRIZE = "prize"
    VOID = "void"
    #: Valid, and changes no rating by the rules.
    NOT_RATED = "not-rated"
    #: The same content had its effect before.
    DUPLICATE = "duplicate"
    #: Other content with its id had its effect before; it is a dead letter again.
    CONFLICT = "conflict"
    #: A dead letter again, with one attempt more.
    STILL_WRONG = "still-wrong"
    #: Not replayed: a replay cannot help now.
    PARKED = "parked"
    #: No longer a dead letter: replayed, edited or discarded by somebody else.
    GONE = "gone"
    #: In the inbox, not settled by a worker yet.
    WAITING = "waiting"
    #: Not replayed: the replay ended before its turn.
    LEFT = "left"
    #: Dry run only: depends on a message that is in the inbox now.
    UNDECIDED = "undecided"


#: Outcomes that `commit_batch.lua` writes into a replay's log; for dead letters it writes dead:REASON.
_SETTLED: Final = ("rated", "prize", "void", "not-rated", "duplicate")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One dead letter and its outcome."""

    #: The dead letter's id when the replay began.
    letter: str
    outcome: ReplayOutcome
    #: One sentence; empty when there is nothing to add.
    detail: str = ""
    #: Reason code, when it is a dead letter again.
    reason: str = ""
    #: New id, when it is a dead letter again.
    new_id: str = ""

    @classmethod
    def from_log(cls, letter: str, text: str) -> ReplayResult:
        """The result that `commit_batch.lua` wrote into the replay's log as `text`."""
        if text in _SETTLED:
            return cls(letter, ReplayOutcome(text))
        if text.startswith("moved"):
            return cls(letter, ReplayOutcome.WAITING)
        reason = text.partition(":")[2] or text
        conflict = reason == Reason.CONFLICT
        outcome = ReplayOutcome.CONFLICT if conflict else ReplayOutcome.STILL_WRONG
        return cls(letter, outcome, reason=reason)

    def document(self) -> dict[str, Any]:
        """A JSON object, without empty fields."""
        found = {"letter": self.letter, "outcome": self.outcome.value}
        extra = {"detail": self.detail, "reason": self.reason, "new_id": self.new_id}
        return {**found, **{name: value for name, value in extra.items() if value}}


@dataclass
class ReplaySummary:
    """Number of letters by outcome."""

    counts: Counter[ReplayOutcome] = field(default_factory=Counter)
    #: Reason -> number of letters that are dead letters again.
    still_wrong: Counter[str] = field(default_factory=Counter)

    def add(self, result: ReplayResult) -> None:
        """Count a result."""
        self.counts[result.outcome] += 1
        if result.outcome is ReplayOutcome.STILL_WRONG:
            self.still_wrong[result.reason] += 1

    @property
    def total(self) -> int:
        """The number of all results."""
        return self.counts.total()

    def document(self) -> dict[str, Any]:
        """A JSON object: `outcomes`, and `still_wrong` by reason if there are any."""
        found: dict[str, Any] = {
            "outcomes": {item.value: self.counts[item] for item in ReplayOutcome if self.counts[item]}
        }
        if self.still_wrong:
            found["still_wrong"] = dict(self.still_wrong.most_common())
        return found

    def sentence(self) -> str:
        """The counts in one line, in the order of `ReplayOutcome`."""
        parts = []
        for outcome in ReplayOutcome:
            if count := self.counts[outcome]:
                text = f"{outcome.value.replace('-', ' ')} {count}"
                if outcome is ReplayOutcome.STILL_WRONG:
                    by_reason = ", ".join(f"{name} {part}" for name, part in self.still_wrong.most_common())
                    text += f" ({by_reason})"
                parts.append(text)
        return ", ".join(parts) or "nothing"
