"""Looks closely at what differs, and rebuilds what follows from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from match_ratings_worker.audit.audit_report import Difference, Kind, Progress, Report
from match_ratings_worker.audit.compare_player import Derived, Stored, derived, differing_games, known_state
from match_ratings_worker.audit.follow_ledger import MAX_PASSES, Follower
from match_ratings_worker.audit.second_pass import SecondPass, check_void
from match_ratings_worker.audit.stored_snapshot import PAGE, Repair

__all__ = ["Repairer", "Mismatch"]

#: Players whose windows are looked at in one more reading of the ledger.
_AT_ONCE: Final = 20_000


@dataclass(slots=True)
class Mismatch:
    """A player of whom something derived differs."""

    #: Whether it is the window, which is still to be told.
    window: bool = False
    #: Differences told so far.
    told: int = 0


class Repairer:
    """Tells which games differ, whether voids are the inverse of their matches, and repairs."""

    def __init__(self, follower: Follower, report: Report, suspects: dict[str, Mismatch]) -> None:
        self._follower, self._report, self._suspects = follower, report, suspects
        self._replay = follower.replay

    async def look(self, progress: Progress, *, repair: bool) -> None:
        """Reads the ledger again for all of them; it may be read several times."""
        names = [name for name, suspect in self._suspects.items() if suspect.window or repair]
        if not names and not self._replay.voids:
            return
        for start in range(0, max(len(names), 1), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            watched: dict[str, dict[str, int]] = {name: {} for name in some}
            self._replay.watched = watched
            reading = SecondPass(() if start else self._replay.voids.keys(), watched)
            done = 0
            async for page in self._follower.ledger.pages("0-0", self._replay.last):
                for ledger_id, raw in page:
                    reading.feed(ledger_id, raw)
                done += len(page)
                progress("Looking closely", done, max(done, self._replay.events))
            if not start:
                self._check_voids(reading)
            for first in range(0, len(some), PAGE):
                await self._mend(some[first : first + PAGE], reading, repair=repair)
        self._replay.watched = {}

    def _check_voids(self, reading: SecondPass) -> None:
        for match_id, void in self._replay.voids.items():
            match = reading.matches.get(match_id)
            found = check_void(match_id, void, match, self._replay.rulebook, complete=self._replay.complete)
            if found is None:
                self._report.voids_unvouched += 1
            for difference in found or ():
                self._report.add(difference)

    async def _mend(self, names: Sequence[str], reading: SecondPass, *, repair: bool) -> None:
        rest = list(names)
        for _ in range(MAX_PASSES):
            moved: list[str] = []
            async for page in self._follower.looks(rest):
                repairs = []
                for name, stored in page:
                    if not stored.fault:
                        self._tell(name, stored, reading)
                        repairs.append(self._repair(name, stored))
                if repair:
                    for made, done in zip(repairs, await self._follower.books.repair(repairs), strict=True):
                        if done:
                            self._settle(made.player)
                        else:
                            moved.append(made.player)
            rest = moved
            if not rest:
                return

    def _tell(self, name: str, stored: Stored, reading: SecondPass) -> None:
        """Tells how a window differs, if that is not told yet."""
        suspect = self._suspects[name]
        if not suspect.window:
            return
        suspect.window = False
        how = differing_games(stored.games, self._games(name))
        if how:
            suspect.told += 1
            self._report.add(Difference(Kind.WINDOW, f"{name}: the window has {how}", name))
        elif name in reading.twice:
            text = f"{name}: the match {reading.twice[name]} was rated twice"
            self._report.add(Difference(Kind.MISSING, text, name))

    def _games(self, name: str) -> dict[str, int]:
        """The games that belong into the compared part of a player's window."""
        since = self._follower.games_from(name)
        return {game: at for game, at in self._replay.watched[name].items() if at >= since}

    def _repair(self, name: str, stored: Stored) -> Repair:
        system = self._replay.rulebook.current
        state = known_state(self._replay.tracks[name], stored, system)
        sequence = stored.values[1]
        # Without a readable state nothing but the window can be put right.
        right = Derived(stored.score, stored.closes_at) if state is None else derived(state, system)
        return Repair(name, sequence, right, self._follower.games_from(name), self._games(name))

    def _settle(self, name: str) -> None:
        suspect = self._suspects[name]
        self._report.settle(suspect.told)
        suspect.told = 0
