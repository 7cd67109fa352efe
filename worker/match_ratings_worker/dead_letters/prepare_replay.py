"""Decides for each dead letter whether it is replayed, and what goes with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from match_ratings import Reason
from match_ratings_worker.dead_letters.dry_run import PARKED, readable
from match_ratings_worker.dead_letters.edit_history import extended
from match_ratings_worker.dead_letters.late_match_check import Ledger
from match_ratings_worker.dead_letters.letter_store import Move, Setup
from match_ratings_worker.dead_letters.replay_options import Order
from match_ratings_worker.dead_letters.replay_outcome import Outcome, Result
from match_ratings_worker.pipeline.validate_message import Problem
from match_ratings_worker.queries import DeadLetterEntry
from match_ratings_worker.storage.stream_ids import stream_id_ms

__all__ = ["ReplayPlanner", "Ready"]


class Ready(NamedTuple):
    """A letter that is to be replayed."""

    move: Move
    #: What is wrong with it as far as this installation knows; "" when nothing is.
    detail: str
    force_late: bool


class ReplayPlanner:
    """First `note` all letters, then `look`, then `ready` each."""

    def __init__(self, setup: Setup, order: Order, run: str) -> None:
        self._setup = setup
        self._order = order
        self._run = run
        self._ledger = Ledger()

    def note(self, letter: DeadLetterEntry, now: int) -> None:
        """Remembers what is to be looked up in the ledger; `now` in ms."""
        if not self._order.force_late:
            return
        read = readable(letter.message, self._setup, now)
        if isinstance(read, Problem) and read.reason is Reason.TOO_LATE:
            message = readable(letter.message, self._setup, now, force_late=True)
            if not isinstance(message, Problem):
                self._ledger.add(message)

    async def look(self, redis: Redis, now: int) -> None:
        """Looks through the ledger for those that are too late. Raises ArchiveError."""
        await self._ledger.look(redis, self._setup, now)

    def ready(self, letter: DeadLetterEntry, now: int) -> Ready | Result:
        """What is to go into the inbox, or why nothing is; `now` in ms."""
        if not letter.message:
            return Result(letter.id, Outcome.PARKED, "it holds no message; discard it", letter.reason)
        read = readable(letter.message, self._setup, now)
        if not isinstance(read, Problem):
            return self._move(letter, "", letter.history)
        detail = read.detail
        if read.reason is Reason.TOO_LATE:
            if self._order.force_late:
                forced = self._forced(letter, now)
                if isinstance(forced, Ready):
                    return forced
                detail += f"; not forced: {forced}"
            else:
                detail += "; only a forced replay rates it"
        if read.reason in PARKED and not self._order.include_parked:
            return Result(letter.id, Outcome.PARKED, detail, read.reason.value)
        return self._move(letter, detail, letter.history)

    def _forced(self, letter: DeadLetterEntry, now: int) -> Ready | str:
        """A late letter with the proof that it had no effect; or why there is none."""
        message = readable(letter.message, self._setup, now, force_late=True)
        if isinstance(message, Problem):
            return message.detail
        if refusal := self._ledger.against(message):
            return refusal
        doubt, word = self._ledger.doubt(message), self._order.never_rated
        if doubt and not word:
            return f"{doubt}, so somebody has to say that it was not rated"
        why = word or "the ledger goes back to its day and does not show it"
        proof = "statement" if doubt else "ledger"
        history = extended(letter.history, at=now, who=self._order.who, why=why, force_late=proof)
        games = self._ledger.forgotten_games(message)
        return self._move(letter, "", history, force_late=True, games=games)

    def _move(
        self,
        letter: DeadLetterEntry,
        detail: str,
        history: str,
        *,
        force_late: bool = False,
        games: Sequence[tuple[str, str, int]] = (),
    ) -> Ready:
        replay = {
            "run": self._run,
            "letter": letter.id,
            "attempts": max(letter.attempts, 0),
            "first_seen": letter.first_seen or stream_id_ms(letter.id),
            "history": history,
            "force_late": force_late,
        }
        text = json.dumps(replay, ensure_ascii=True)
        return Ready(Move(letter.id, text, history, games), detail, force_late)
