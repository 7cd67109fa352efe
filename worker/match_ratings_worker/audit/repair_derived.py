"""Second pass over the ledger: reports window differences, checks voids, and repairs derived data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from match_ratings_worker.storage import PLAYERS_PER_CALL, LadderHandle, Script, StoredPlayer

from .audit_report import AuditReport, Difference, DifferenceKind, Progress
from .audit_snapshots import MAX_PASSES, ConsistentSnapshots
from .compare_player import Derived, compare_games, derive, known_state
from .recheck_differences import SecondPass, check_void

#: Players whose windows are collected in one pass over the ledger.
_PLAYERS_PER_PASS: Final = 20_000
#: Players, and games, repaired in one script call.
_REPAIRED: Final = 100
_REPAIRED_GAMES: Final = 1000


@dataclass(slots=True)
class Mismatch:
    """A player with different derived data."""

    #: Whether the window differs and is still to be reported.
    window: bool = False
    #: Differences reported so far.
    reported: int = 0


@dataclass(frozen=True, slots=True)
class Repair:
    """The right derived data of a player."""

    player: str
    #: The sequence as stored when this was computed; None when nothing is stored.
    sequence: bytes | None
    derived: Derived
    #: The window is rebuilt from this time on, in ms, with these games; None leaves it alone.
    games_from: int | None = None
    games: dict[str, int] | None = None


async def write_repairs(ladder: LadderHandle, repairs: Sequence[Repair]) -> list[bool]:
    """Writes derived data; False for each player who changed since it was computed."""
    script, keys = Script("repair_derived"), ladder.keys
    names = (keys.leaderboard, keys.open_periods, keys.player_, keys.games_)
    written: list[bool] = []
    args: list[Any] = []
    players = games = 0
    for number, repair in enumerate(repairs, 1):
        args += _arguments(repair)
        players, games = players + 1, games + len(repair.games or ())
        if players == _REPAIRED or games >= _REPAIRED_GAMES or number == len(repairs):
            reply = await script(ladder.executor, names, [ladder.keep_games_ms, *args])
            written += [bool(each) for each in reply]
            args, players, games = [], 0, 0
    return written


def _arguments(repair: Repair) -> list[Any]:
    score, closes_at = ("" if value is None else repr(value) for value in repair.derived)
    games = repair.games or {}
    args: list[Any] = [repair.player.encode("utf-8", "surrogateescape"), repair.sequence or b""]
    args += [score, closes_at, "" if repair.games_from is None else repair.games_from, len(games)]
    for game, time in games.items():
        args += [time, game]
    return args


class Repairer:
    """Reports which games of windows differ and which voids do, and repairs derived data."""

    def __init__(
        self, snapshots: ConsistentSnapshots, report: AuditReport, mismatches: dict[str, Mismatch]
    ) -> None:
        self._snapshots, self._report, self._mismatches = snapshots, report, mismatches
        self._replay = snapshots.replay

    async def run(self, progress: Progress, *, repair: bool) -> None:
        """Reads the ledger again, more than once when very many players differ."""
        names = [name for name, mismatch in self._mismatches.items() if mismatch.window or repair]
        if not names and not self._replay.voids:
            return
        for start in range(0, max(len(names), 1), _PLAYERS_PER_PASS):
            some = names[start : start + _PLAYERS_PER_PASS]
            watched: dict[str, dict[str, int]] = {name: {} for name in some}
            self._replay.watched = watched
            collected = SecondPass(() if start else self._replay.voids.keys(), watched)
            done = 0
            async for page in self._snapshots.ledger.pages(upto=self._replay.last):
                for ledger_id, raw in page:
                    collected.feed(ledger_id, raw)
                done += len(page)
                progress("Checking details", done, max(done, self._replay.events))
            if not start:
                self._check_voids(collected)
            for first in range(0, len(some), PLAYERS_PER_CALL):
                await self._report_and_repair(some[first : first + PLAYERS_PER_CALL], collected, repair)
        self._replay.watched = {}

    def _check_voids(self, collected: SecondPass) -> None:
        for match_id, void in self._replay.voids.items():
            match = collected.matches.get(match_id)
            found = check_void(match_id, void, match, self._replay.history, complete=self._replay.complete)
            if found is None:
                self._report.unverifiable_voids += 1
            for difference in found or ():
                self._report.add(difference)

    async def _report_and_repair(self, names: Sequence[str], collected: SecondPass, repair: bool) -> None:
        rest = list(names)
        for _ in range(MAX_PASSES):
            changed: list[str] = []
            async for page in self._snapshots.players(rest):
                readable = [(name, stored) for name, stored in page if not stored.fault]
                for name, stored in readable:
                    self._report_window(name, stored, collected)
                if not repair:
                    continue
                repairs = [self._repair(name, stored) for name, stored in readable]
                written = await write_repairs(self._snapshots.ledger.ladder, repairs)
                for (name, _), is_written in zip(readable, written, strict=True):
                    if is_written:
                        self._report.add_repaired(self._mismatches[name].reported)
                        self._mismatches[name].reported = 0
                    else:
                        changed.append(name)
            rest = changed
            if not rest:
                return

    def _report_window(self, name: str, stored: StoredPlayer, collected: SecondPass) -> None:
        """Reports the differences of a window, once."""
        mismatch = self._mismatches[name]
        if not mismatch.window:
            return
        mismatch.window = False
        differences = compare_games(stored.games, self._games(name))
        if differences:
            mismatch.reported += 1
            self._report.add(Difference(DifferenceKind.WINDOW, f"{name}: the window has {differences}", name))
        elif name in collected.rated_twice:
            text = f"{name}: the match {collected.rated_twice[name]} was rated twice"
            self._report.add(Difference(DifferenceKind.MISSING, text, name))

    def _games(self, name: str) -> dict[str, int]:
        """The games of the compared part of a player's window."""
        since = self._snapshots.games_from(name)
        return {game: at for game, at in self._replay.watched[name].items() if at >= since}

    def _repair(self, name: str, stored: StoredPlayer) -> Repair:
        system = self._replay.history.current
        state = known_state(self._replay.players[name], stored, system)
        # Without a readable state only the window can be repaired.
        derived = Derived(stored.score, stored.closes_at) if state is None else derive(state, system)
        games_from = self._snapshots.games_from(name)
        return Repair(name, stored.sequence, derived, games_from, self._games(name))
