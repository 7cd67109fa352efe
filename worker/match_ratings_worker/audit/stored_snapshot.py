"""What Redis holds besides the ledger: read at one moment together with the ledger's end, and repaired."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from match_ratings_worker.audit.compare_player import Derived, Stored
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.player_states import stored_fields
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.units import keep_games_ms

__all__ = ["PAGE", "SnapshotReader", "Look", "Repair"]

#: Players in one script call: Redis is held for about 2 ms.
PAGE: Final = 200
#: Players, and games, that are repaired in one script call.
_REPAIRED: Final = 100
_REPAIRED_GAMES: Final = 1000
#: Keys that are looked through in one step.
_SCANNED: Final = 5000


class Look(NamedTuple):
    """What was stored at one moment."""

    #: The ledger's newest event then; it and all before it are in what is stored, no later one is.
    newest: str
    counts: dict[str, int]
    stored: list[Stored]


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be written for a player."""

    player: str
    #: The sequence as stored when this was worked out; None when nothing is.
    sequence: bytes | None
    derived: Derived
    #: From when on the window is made anew, in ms, and its games since; None when it stays.
    games_from: int | None = None
    games: dict[str, int] | None = None


class SnapshotReader:
    """What is stored of a ladder."""

    def __init__(self, redis: Redis, keys: Keys, system: RatingSystem, *, horizon: int) -> None:
        """`horizon` in ms."""
        self._redis, self._keys = redis, keys
        self._executor = ClientExecutor(redis)
        self._fields = stored_fields(system)
        self._keep_games = keep_games_ms(horizon)
        self._audit, self._repair = Script("read_snapshot"), Script("repair_derived")

    async def look(self, players: Sequence[tuple[str, int]]) -> Look:
        """What is stored of players, each with the time in ms from which on games are wanted."""
        keys = self._keys
        args: list[Any] = [len(self._fields), *self._fields]
        for name, since in players:
            args += (name.encode("utf-8", "surrogateescape"), since)
        newest, _, counts, found = await self._audit(
            self._executor,
            (keys.outbox, keys.leaderboard, keys.open_periods, keys.player_, keys.games_, keys.counts),
            args,
        )
        tally = {name.decode(): int(number) for name, number in zip(counts[::2], counts[1::2], strict=True)}
        return Look(newest.decode(), tally, [self._stored(item) for item in found])

    def _stored(self, item: Any) -> Stored:
        if isinstance(item, bytes):
            return Stored([None] * len(self._fields), None, None, {}, item.decode("utf-8", "replace"))
        values, score, closes_at, games = item
        return Stored(
            values,
            None if score is None else float(score),
            None if closes_at is None else float(closes_at),
            {
                game.decode("utf-8", "surrogateescape"): int(float(time))
                for game, time in zip(games[::2], games[1::2], strict=True)
            },
        )

    async def repair(self, repairs: Sequence[Repair]) -> list[bool]:
        """Writes what follows from ratings; False for each player who has moved since the look."""
        done: list[bool] = []
        args: list[Any] = []
        players = games = 0
        for repair in repairs:
            args += self._arguments(repair)
            players, games = players + 1, games + len(repair.games or ())
            if players >= _REPAIRED or games >= _REPAIRED_GAMES:
                done += await self._send(args)
                args, players, games = [], 0, 0
        return done + (await self._send(args) if args else [])

    def _arguments(self, repair: Repair) -> list[Any]:
        score, closes_at = ("" if value is None else repr(value) for value in repair.derived)
        games = repair.games or {}
        args: list[Any] = [repair.player.encode("utf-8", "surrogateescape"), repair.sequence or b""]
        args += [score, closes_at, "" if repair.games_from is None else repair.games_from, len(games)]
        for game, time in games.items():
            args += [time, game]
        return args

    async def _send(self, args: list[Any]) -> list[bool]:
        keys = self._keys
        done = await self._repair(
            self._executor,
            (keys.leaderboard, keys.open_periods, keys.player_, keys.games_),
            [self._keep_games, *args],
        )
        return [bool(each) for each in done]

    async def stored_players(self) -> AsyncIterator[list[str]]:
        """The ids of all players with a state, some of them twice, in pages."""
        prefix = self._keys.player_.encode()
        page: list[str] = []
        async for key in self._redis.scan_iter(match=prefix + b"*", count=_SCANNED):
            page.append(key[len(prefix) :].decode("utf-8", "surrogateescape"))
            if len(page) >= _SCANNED:
                yield page
                page = []
        yield page

    async def listed_players(self) -> AsyncIterator[list[str]]:
        """The ids of all players on the leaderboard, some of them twice, in pages."""
        page: list[str] = []
        async for name, _ in self._redis.zscan_iter(self._keys.leaderboard, count=_SCANNED):
            page.append(name.decode("utf-8", "surrogateescape"))
            if len(page) >= _SCANNED:
                yield page
                page = []
        yield page

    async def receipts(self, receipt_keys: Sequence[str]) -> list[str]:
        """The ledger id that each receipt names; "" for one that is not there."""
        found = await self._redis.mget(receipt_keys)
        return [Receipt.parse(text).ledger_id for text in found]
