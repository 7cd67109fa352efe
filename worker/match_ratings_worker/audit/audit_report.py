"""What an audit found: the first differences one by one, all of them counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = ["SHOWN", "Difference", "Kind", "Progress", "Report"]

#: Told what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]

#: Differences that are kept one by one.
SHOWN: Final = 100


class Kind(StrEnum):
    """What differs."""

    #: The ledger has something that is no event of this ladder.
    EVENT = "event"
    #: An event's own figures do not give its numbers.
    FIGURES = "figures"
    #: An event is missing, or is there twice.
    MISSING = "missing"
    #: An event does not go on from where the player's event before it ended.
    CHAIN = "chain"
    #: What is stored of a player is not what the ledger says.
    RATING = "rating"
    SEQUENCE = "sequence"
    GAMES = "games"
    STATE = "state"
    #: A player is stored of whom the ledger says nothing, or the other way round.
    PLAYER = "player"
    #: These are derived from the rest and can be rebuilt.
    LEADERBOARD = "leaderboard"
    WINDOW = "window"
    PERIOD = "period"
    #: A receipt does not name its event.
    RECEIPT = "receipt"
    #: The outcomes counted are not those of the ledger.
    COUNT = "count"


_REPAIRABLE: Final = frozenset({Kind.LEADERBOARD, Kind.WINDOW, Kind.PERIOD})


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be."""

    kind: Kind
    #: One sentence.
    text: str
    player: str | None = None
    #: The event it is about, or at which it was noticed.
    ledger_id: str | None = None

    @property
    def repairable(self) -> bool:
        """Whether it is about something that can be rebuilt from the ledger."""
        return self.kind in _REPAIRABLE


@dataclass(slots=True)
class Report:
    """The outcome of an audit."""

    #: Events replayed and players compared.
    events: int = 0
    players: int = 0
    #: Players of whom the ledger has only the later changes, or none at all any more.
    partly: int = 0
    unvouched: int = 0
    #: Matches taken back whose own events are no longer kept, so that nobody can say by how much.
    voids_unvouched: int = 0
    #: When the oldest event was written, in ms; None without events.
    since: int | None = None
    #: Receipts looked at.
    receipts: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    #: The first differences.
    first: list[Difference] = field(default_factory=list)
    #: Players whose leaderboard, window or open period was rebuilt.
    repaired: int = 0
    #: Differences that this put right.
    settled: int = 0

    def add(self, difference: Difference) -> None:
        """Counts a difference, and keeps it if it is one of the first."""
        self.counts[difference.kind] += 1
        if len(self.first) < SHOWN:
            self.first.append(difference)

    def settle(self, differences: int) -> None:
        """Counts so many differences of one player as put right."""
        if differences:
            self.repaired += 1
            self.settled += differences

    @property
    def total(self) -> int:
        """How many differences there are."""
        return self.counts.total()

    @property
    def left(self) -> int:
        """How many of them are still there."""
        return self.total - self.settled

    @property
    def whole(self) -> bool:
        """Whether all that is stored was compared with changes from the very first on."""
        return not (self.partly or self.unvouched or self.voids_unvouched)
