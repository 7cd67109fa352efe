"""The findings of an audit: the first differences one by one, all of them counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

#: Called with the current step, the amount done, and the total.
Progress = Callable[[str, int, int], None]

#: Differences that are kept one by one.
MAX_LISTED: Final = 100


class DifferenceKind(StrEnum):
    """The part of a ladder's data that differs."""

    #: The ledger has an entry that is not an event of this ladder.
    EVENT = "event"
    #: An event's own figures do not give its numbers.
    FIGURES = "figures"
    #: An event is missing, or is there twice.
    MISSING = "missing"
    #: An event does not continue from the player's event before it.
    CHAIN = "chain"
    #: A player's stored state is not that of the ledger.
    RATING = "rating"
    SEQUENCE = "sequence"
    GAMES = "games"
    STATE = "state"
    #: A player is stored without events, or has events and is not stored.
    PLAYER = "player"
    #: These are derived from the rest and can be rebuilt.
    LEADERBOARD = "leaderboard"
    WINDOW = "window"
    PERIOD = "period"
    #: A receipt does not name its event.
    RECEIPT = "receipt"
    #: The counted outcomes are not those of the ledger.
    COUNT = "count"


_REPAIRABLE: Final = frozenset({DifferenceKind.LEADERBOARD, DifferenceKind.WINDOW, DifferenceKind.PERIOD})


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the ledger and the stored data."""

    kind: DifferenceKind
    #: One sentence.
    text: str
    player: str | None = None
    #: The event concerned, or the one where it was noticed.
    ledger_id: str | None = None

    @property
    def repairable(self) -> bool:
        """Whether the data can be rebuilt from the ledger."""
        return self.kind in _REPAIRABLE


@dataclass(slots=True)
class AuditReport:
    """The outcome of an audit."""

    #: Events replayed and players compared.
    events: int = 0
    players: int = 0
    #: Players whose first events are no longer kept, and players without any event that is.
    partial: int = 0
    unverifiable: int = 0
    #: Voids whose matches' events are no longer kept, so that their changes cannot be checked.
    unverifiable_voids: int = 0
    #: Time of the oldest event, in ms; None without events.
    since: int | None = None
    #: Receipts checked.
    receipts: int = 0
    counts: Counter[DifferenceKind] = field(default_factory=Counter)
    #: The first differences.
    first: list[Difference] = field(default_factory=list)
    #: Players whose leaderboard score, window or open period was rebuilt.
    repaired_players: int = 0
    #: Differences removed by that.
    repaired: int = 0

    def add(self, difference: Difference) -> None:
        """Counts a difference, and keeps it if it is one of the first."""
        self.counts[difference.kind] += 1
        if len(self.first) < MAX_LISTED:
            self.first.append(difference)

    def add_repaired(self, differences: int) -> None:
        """Records that this many differences of one player were repaired."""
        if differences:
            self.repaired_players += 1
            self.repaired += differences

    @property
    def total(self) -> int:
        """Number of differences found."""
        return self.counts.total()

    @property
    def remaining(self) -> int:
        """Number of differences that were not repaired."""
        return self.total - self.repaired

    @property
    def complete(self) -> bool:
        """Whether everything stored was compared with changes from the very first on."""
        return not (self.partial or self.unverifiable or self.unverifiable_voids)
