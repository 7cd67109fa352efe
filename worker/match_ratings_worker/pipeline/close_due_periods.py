"""Closes rating periods that are over, for systems that rate by period.

A worker closes a player's period before it rates a game of a later one. This closes those of players who
do not play on. Each player is closed by the commit script, which checks that nothing has changed since the
state was read: closing again, from several processes, or after a kill in the middle changes nothing more.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from match_ratings_worker.ladder_settings import UnknownSettings, adopted
from match_ratings_worker.rating import Number
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import CONNECTION_ERRORS, LadderHandle, Script

from .claim_read_commit import LadderStore
from .close_period import close_period
from .message_batch import Commit, CommitStatus, LadderRules

log = structlog.get_logger(__name__)

#: Players in one script call: Redis is held for about 2 ms.
_CHUNK: Final = 64
#: Chunks in a row whose players all changed since they were read, after which a round gives up.
_TRIES: Final = 20
#: Time that one job spends on a ladder, in seconds; the next job goes on.
_SECONDS: Final = 40.0
#: Later than any period's end, in ms.
_FOR_EVER: Final = 2**62

_due = Script("find_due_periods")


@dataclass(frozen=True, slots=True)
class ClosedPeriod:
    """The end of one player's period."""

    player: str
    before: Number
    change: Number
    after: Number
    k: Number | None
    #: The games of the period.
    games: int
    #: When it ended, in ms.
    ended: int


class PeriodCloser:
    """Closes the rating periods of a ladder that are over, in one round."""

    def __init__(
        self,
        store: LadderStore,
        *,
        until: int | None = None,
        grace: int | None = None,
        early: bool = False,
        dry: bool = False,
    ) -> None:
        """Select the periods that are over and whose grace has passed (the system's, or as given; in ms).

        With `until` (ms) only periods that ended by then, with `early` all open ones. With `dry` nothing
        is written.
        """
        self._store, self._dry = store, dry
        self._wanted: str | int = "+inf" if early else "" if until is None else until
        self._grace = 0 if early else (store.system.period_grace or 0) if grace is None else grace
        self.closed = 0
        #: Players whose stored state cannot be read, or has no period to close.
        self.passed = 0
        #: Unsettled messages: at least this number.
        self.waiting = 0
        #: Periods that ended by this time, in ms, were closed; None for all.
        self.until: int | None = None

    async def run(self, seconds: float | None = None) -> AsyncIterator[list[ClosedPeriod]]:
        """Close chunk by chunk, for at most `seconds`, and yield the closed periods. Raises RedisError."""
        started, failed = time.monotonic(), 0
        store, keys = self._store, self._store.keys
        while seconds is None or time.monotonic() - started < seconds:
            offset = self.passed + (self.closed if self._dry else 0)
            now, until, self.waiting, names = await _due(
                store.executor,
                (keys.inbox, keys.open_periods),
                (keys.group, self._grace, self._wanted, _CHUNK, offset),
            )
            end = _FOR_EVER if until == b"+inf" else int(until)
            self.until = None if until == b"+inf" else end
            if not names:
                return
            commits = await self._commits([name.decode() for name in names], end, int(now))
            done = await self._carry_out(commits, int(now))
            self.closed += len(done)
            failed = failed + 1 if commits and not done else 0
            if failed == _TRIES:
                return
            if done:
                yield done

    async def _commits(self, names: list[str], end: int, now: int) -> list[Commit]:
        players = await self._store.read_players(names)
        rules = LadderRules(self._store.ladder, self._store.system, 0)  # no horizon: there is no message
        found = []
        for name, player in players.items():
            commit = close_period(player, name, rules, end, now)
            if commit is None:
                self.passed += 1
            else:
                found.append(commit)
        return found

    async def _carry_out(self, commits: list[Commit], now: int) -> list[ClosedPeriod]:
        if not commits:
            return []
        statuses: list[int | str] = [CommitStatus.DONE] * len(commits)
        if not self._dry:
            statuses = await self._store.commit(commits, now)
        for status in statuses:
            if isinstance(status, str):
                raise RuntimeError(status)
        return [
            _closed(commit)
            for commit, status in zip(commits, statuses, strict=True)
            if status == CommitStatus.DONE
        ]


async def adopted_store(ladder: LadderHandle) -> LadderStore:
    """A store with the ladder's adopted settings, by which alone periods may be closed.

    Raises RedisError, and UnknownSettings when this version cannot read them.
    """
    adoption = await adopted(ladder.redis, ladder.keys)
    system = ladder.system if adoption is None else adoption.rating_system()
    return LadderStore(ladder.redis, ladder.name, system, horizon=ladder.horizon_ms, shadow=ladder.shadow)


async def close_and_log(ladder: LadderHandle) -> None:
    """Close the periods of a ladder that are over, for 40 s at most; logs what goes wrong."""
    try:
        closing = PeriodCloser(await adopted_store(ladder))
        async for _ in closing.run(_SECONDS):
            pass
    except (UnknownSettings, RuntimeError, *CONNECTION_ERRORS) as error:
        log.warning("rating periods are not closed", ladder=ladder.name, error=quote(str(error), 300))
        return
    if closing.closed:
        log.info("closed rating periods", ladder=ladder.name, players=closing.closed, until=closing.until)


def _closed(commit: Commit) -> ClosedPeriod:
    event = orjson.loads(commit.events[0])
    (part,) = event["players"]
    games = int(part.get("figures", {}).get("period_games_before", 0))
    return ClosedPeriod(
        part["player"],
        part["before"],
        part["change"],
        part["after"],
        part.get("k"),
        games,
        event["finished_at"],
    )
