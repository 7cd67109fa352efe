"""Writes the players of another rater into a ladder or its shadow; running it again changes nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import orjson
from redis.exceptions import ResponseError

from match_ratings import Cause
from match_ratings.messages import VERSION
from match_ratings_worker.pipeline import LadderStore
from match_ratings_worker.rating import Number
from match_ratings_worker.storage import IMPORTED, Script
from match_ratings_worker.time_units import CLOCK_SKEW_MS, keep_games_ms, now_ms

from .player_records import PlayerRecord

#: Players in one script call: it holds Redis for about 2 ms.
_CHUNK: Final = 64
#: Games of all players in one script call, at most.
_CHUNK_GAMES: Final = 500
#: Attempts for a player whose rating changes during the import.
_TRIES: Final = 20
#: Script calls in flight at once.
_SENT: Final = 4

T = TypeVar("T")

ImportOutcome = Literal["imported", "replaced", "unchanged", "refused"]


class ImportResult(NamedTuple):
    """The outcome for one player."""

    player: str
    outcome: ImportOutcome
    #: refused: the player's present rating here, and the number of its changes.
    rating: Number = 0
    sequence: int = 0


class _Standing(NamedTuple):
    sequence: int
    rating: Number
    imported: bytes | None


class Importer:
    """Imports players into the ladder of a store."""

    def __init__(self, store: LadderStore, *, horizon: int, replace: bool = False, dry: bool = False) -> None:
        """`horizon` in ms; with `dry` nothing is written."""
        self._store, self._system = store, store.system
        self._replace, self._dry = replace, dry
        self._keep_games = keep_games_ms(horizon)
        self._keep_receipts = horizon + CLOCK_SKEW_MS + 3_600_000
        self._script = Script("import_players")
        self._start = self._system.initial().rating

    async def run(
        self, items: Iterable[T], of: Callable[[T], PlayerRecord]
    ) -> AsyncIterator[tuple[T, ImportResult]]:
        """Imports any number of players, `of` each item, and yields their outcomes in order.

        Several script calls are in flight at once. Raises as `import_chunk`, and as `items`.
        """
        sent: deque[tuple[list[T], asyncio.Task[list[ImportResult]]]] = deque()
        try:
            for chunk in _chunks(items, of):
                sent.append((chunk, asyncio.create_task(self.import_chunk([of(item) for item in chunk]))))
                await asyncio.sleep(0)  # sends it before the next is read
                while len(sent) > _SENT:
                    chunk_items, task = sent.popleft()
                    for pair in zip(chunk_items, await task, strict=True):
                        yield pair
            while sent:
                chunk_items, task = sent.popleft()
                for pair in zip(chunk_items, await task, strict=True):
                    yield pair
        finally:
            for _, task in sent:
                task.cancel()

    async def import_chunk(self, records: Sequence[PlayerRecord]) -> list[ImportResult]:
        """Imports some players in one script call, and those that changed in between again.

        Raises redis.exceptions.RedisError; ResponseError for a player whose keys hold another type, when
        the players before it may have been written.
        """
        results: dict[str, ImportResult] = {}
        standings: dict[str, _Standing] = {}
        rest = list(records)
        for _ in range(_TRIES):
            statuses = await self._send(rest, standings)
            again = []
            for record, status in zip(rest, statuses, strict=True):
                name = record.player
                if status == 1:
                    outcome: ImportOutcome = "replaced" if name in standings else "imported"
                    results[name] = ImportResult(name, outcome)
                elif isinstance(status, list):
                    standing = self._standing(status)
                    if standing.imported == record.digest.encode():
                        results[name] = ImportResult(name, "unchanged")
                    elif not self._replace:
                        results[name] = ImportResult(name, "refused", standing.rating, standing.sequence)
                    else:
                        standings[name] = standing
                        again.append(record)
                else:
                    raise ResponseError(f"player {name}: {status.decode('utf-8', 'replace')}")
            rest = again
            if not rest:
                return [results[record.player] for record in records]
        msg = f"player {rest[0].player}: the rating keeps changing; stop the workers for the import"
        raise ResponseError(msg)

    def _standing(self, status: list[Any]) -> _Standing:
        sequence, rating, imported = status
        return _Standing(
            int(sequence), self._system.parse_rating(rating) if rating else self._start, imported or None
        )

    async def _send(self, records: Sequence[PlayerRecord], standings: dict[str, _Standing]) -> list[Any]:
        keys, system, now = self._store.keys, self._system, now_ms()
        args: list[Any] = [self._store.digest, int(self._dry), self._keep_games, self._keep_receipts]
        args += (f"- {IMPORTED}", len(system.state_fields), *system.state_fields)
        oldest = now - self._keep_games
        for record in records:
            standing = standings.get(record.player) or _Standing(0, self._start, None)
            state, rating = record.state, repr(record.state.rating)
            recent = {game: at for game, at in record.recent.items() if at >= oldest}
            args += (record.player, standing.sequence, record.digest)
            args.append(self._event(record, standing, recent, now))
            args += (rating if system.on_leaderboard(state) else "", system.closes_at(state) or 0)
            args += (rating, state.games, state.last_game)
            if state.extra:
                args += [repr(value) for value in state.extra]
            args.append(len(recent))
            for game, at in recent.items():
                args += (at, game)
        statuses: list[Any] = await self._script(
            self._store.executor,
            (
                keys.outbox,
                keys.leaderboard,
                keys.counts,
                keys.player_,
                keys.games_,
                keys.receipt_,
                keys.open_periods,
                keys.settings,
            ),
            args,
        )
        return statuses

    def _event(self, record: PlayerRecord, standing: _Standing, recent: dict[str, int], now: int) -> bytes:
        """The RatingUpdated message: the imported state, and the games."""
        state, system = record.state, self._system
        figures: dict[str, Number] = {"games_after": state.games, "last_game_after": state.last_game}
        figures |= {
            f"{name}_after": value for name, value in zip(system.state_fields, state.extra, strict=True)
        }
        part: dict[str, Any] = {
            "player": record.player,
            "before": standing.rating,
            "change": state.rating - standing.rating,
            "after": state.rating,
            "sequence": standing.sequence + 1,
            "figures": figures,
        }
        if recent:
            part["brought"] = recent
        return orjson.dumps(
            {
                "version": VERSION,
                "cause": Cause.IMPORT,
                "ladder": self._store.ladder,
                "system": system.name,
                "rules": system.rules_at(now),
                "finished_at": now,
                "rated_at": now,
                "late": False,
                "players": [part],
            }
        )


def _chunks(items: Iterable[T], of: Callable[[T], PlayerRecord]) -> Iterator[list[T]]:
    """The items, in groups for one script call."""
    chunk: list[T] = []
    games = 0
    for item in items:
        own = len(of(item).recent)
        if chunk and (len(chunk) == _CHUNK or games + own > _CHUNK_GAMES):
            yield chunk
            chunk, games = [], 0
        chunk.append(item)
        games += own
    if chunk:
        yield chunk
