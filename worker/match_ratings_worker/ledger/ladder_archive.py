"""The events of one ladder that have left Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from match_ratings_worker.ledger.sqlite_archive import Archive, Event

__all__ = ["LadderArchive"]


@dataclass(frozen=True, slots=True)
class LadderArchive:
    """One ladder's events in an archive."""

    archive: Archive
    ladder: str

    def iterate(self, after: str = "0-0") -> Iterator[Event]:
        """Those after a place of the ledger, oldest first."""
        return self.archive.iterate(self.ladder, after)

    def find(self, effect_id: str) -> list[Event]:
        """Those of a match or a tournament, oldest first."""
        return self.archive.find(self.ladder, effect_id)

    def at(self, ledger_id: str) -> bytes | None:
        """The one at a place of the ledger."""
        return self.archive.at(self.ladder, ledger_id)

    def of_player(self, player: str, before: str | None = None) -> Iterator[Event]:
        """Those that a player is in, newest first; with `before` those before that place only."""
        return self.archive.of_player(self.ladder, player, before)
