"""Reads players with their derived data as of one moment, together with the ledger's last id."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from match_ratings_worker.rating import RatingSystem, State

from .ladder_handle import LadderHandle
from .lua_scripts import Script
from .player_state_format import parse_state, stored_fields

#: Players read in one script call: it holds Redis for about 2 ms.
PLAYERS_PER_CALL: Final = 200
#: Keys scanned in one step.
_SCANNED: Final = 5000


class StoredPlayer(NamedTuple):
    """A player in Redis."""

    #: The values of `player_states.stored_fields`.
    values: list[bytes | None]
    #: The score on the leaderboard, and in the set of open periods.
    score: float | None
    closes_at: float | None
    #: Match id -> finished_at in ms, of the games asked for.
    games: dict[str, int]
    #: The error of a key that holds another type.
    fault: str = ""

    @property
    def exists(self) -> bool:
        """Whether a state is stored."""
        return self.values[0] is not None or self.values[1] is not None

    @property
    def sequence(self) -> bytes | None:
        """The player's count of changes, as stored."""
        return self.values[1]

    def state(self, system: RatingSystem) -> State | None:
        """The stored state; None when it is missing or cannot be read."""
        try:
            return parse_state(self.values, system)
        except ValueError:
            return None


class PlayersSnapshot(NamedTuple):
    """Some players and the counts of a ladder, all as of one moment."""

    #: The last event included; no later one is.
    ledger_id: str
    #: Outcome -> messages.
    counts: dict[str, int]
    players: list[StoredPlayer]


class SnapshotReader:
    """Reads a ladder's players. Methods raise redis.exceptions.RedisError."""

    def __init__(self, ladder: LadderHandle, system: RatingSystem | None = None) -> None:
        """`system` names the fields of a state; by default it is the handle's."""
        self._ladder = ladder
        self._fields = stored_fields(system or ladder.system)
        self._script = Script("read_snapshot")

    async def read(self, players: Sequence[tuple[str, int]]) -> PlayersSnapshot:
        """Reads players, each given with the time in ms from which its games are wanted."""
        keys = self._ladder.keys
        args: list[Any] = [len(self._fields), *self._fields]
        for name, since in players:
            args += (name.encode("utf-8", "surrogateescape"), since)
        newest, _, counts, found = await self._script(
            self._ladder.executor,
            (keys.outbox, keys.leaderboard, keys.open_periods, keys.player_, keys.games_, keys.counts),
            args,
        )
        tally = {name.decode(): int(number) for name, number in zip(counts[::2], counts[1::2], strict=True)}
        return PlayersSnapshot(newest.decode(), tally, [self._player(item) for item in found])

    def _player(self, item: Any) -> StoredPlayer:
        if isinstance(item, bytes):
            return StoredPlayer([None] * len(self._fields), None, None, {}, item.decode("utf-8", "replace"))
        values, score, closes_at, games = item
        return StoredPlayer(
            values,
            None if score is None else float(score),
            None if closes_at is None else float(closes_at),
            {
                game.decode("utf-8", "surrogateescape"): int(float(time))
                for game, time in zip(games[::2], games[1::2], strict=True)
            },
        )

    async def names(self) -> AsyncIterator[list[str]]:
        """The ids of all players with a state, some of them twice, in pages."""
        prefix = self._ladder.keys.player_.encode()
        keys = self._ladder.redis.scan_iter(match=prefix + b"*", count=_SCANNED)
        async for page in _pages(key[len(prefix) :] async for key in keys):
            yield page

    async def names_on_leaderboard(self) -> AsyncIterator[list[str]]:
        """The ids of all players on the leaderboard, some of them twice, in pages."""
        rows = self._ladder.redis.zscan_iter(self._ladder.keys.leaderboard, count=_SCANNED)
        async for page in _pages(name async for name, _ in rows):
            yield page


async def _pages(names: AsyncIterator[bytes]) -> AsyncIterator[list[str]]:
    page: list[str] = []
    async for name in names:
        page.append(name.decode("utf-8", "surrogateescape"))
        if len(page) >= _SCANNED:
            yield page
            page = []
    yield page
