"""Maps ledger positions to the settings in force."""

from __future__ import annotations

from collections.abc import Sequence

from match_ratings import RatingUpdated
from match_ratings_worker.rating import SYSTEMS, BrokenSystem, RatingSystem
from match_ratings_worker.storage import parse_stream_id

from .adopt_settings import Adoption, UnknownSettings


class SettingsHistory:
    """The systems of a ladder, each with its settings and its part of the ledger."""

    def __init__(self, configured: RatingSystem, adoptions: Sequence[Adoption] = ()) -> None:
        """`configured` is used where no adoption can be read; `adoptions` newest first."""
        self._eras: list[tuple[tuple[int, int], RatingSystem]] = []
        for adoption in adoptions:
            try:
                self._eras.append((parse_stream_id(adoption.after), adoption.rating_system()))
            except UnknownSettings:
                continue
        self._oldest = self._eras[-1][1] if self._eras else configured
        self.current = self._eras[0][1] if self._eras else configured
        self._others: dict[str, RatingSystem | None] = {}

    def system_of(self, ledger_id: str, event: RatingUpdated) -> RatingSystem | None:
        """The system by which an event was rated; None when it is not known to this version."""
        system = self._in_force(ledger_id)
        if system.name == event.system:
            return system
        return self._named(event.system)

    def _in_force(self, ledger_id: str) -> RatingSystem:
        if len(self._eras) < 2:
            return self.current
        at = parse_stream_id(ledger_id)
        return next((system for after, system in self._eras if after < at), self._oldest)

    def _named(self, name: str) -> RatingSystem | None:
        """A system with its default settings, for events older than every known adoption."""
        if name not in self._others:
            try:
                self._others[name] = SYSTEMS[name]()
            except (KeyError, BrokenSystem):
                self._others[name] = None
        return self._others[name]
