"""Pick the letters of a replay in their original order, and decide which of them can be replayed now."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from match_ratings import Reason
from match_ratings_worker.pipeline import Problem
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle, server_time, stream_id_ms

from .dead_letter_filter import id_of_sort_key, sort_key
from .dead_letter_store import DeadLetterStore, InboxMove
from .dry_run import PARKED, read_dead_letter
from .late_match_check import LateMatchCheck
from .replay_log import ReplayOptions
from .replay_results import ReplayOutcome, ReplayResult

#: Letters read in one step.
_PAGE: Final = 64


class Replayable(NamedTuple):
    """A letter that can be replayed now."""

    letter: DeadLetterEntry
    move: InboxMove
    #: What this installation finds wrong with it; empty when nothing.
    detail: str
    force_late: bool


class ReplayCandidates:
    """The selected letters: first `find`, then `next_page` until it is empty. Keeps 40 bytes for each."""

    def __init__(self, ladder: LadderHandle, options: ReplayOptions, replay_name: str) -> None:
        self._ladder = ladder
        self._letters = DeadLetterStore(ladder)
        self._options = options
        self._replay_name = replay_name
        self._late_check = LateMatchCheck()
        self._sort_keys: list[bytes] = []
        self._position = 0

    def __len__(self) -> int:
        return len(self._sort_keys)

    @property
    def has_more(self) -> bool:
        """Whether `next_page` will return any."""
        return self._position < len(self._sort_keys)

    @property
    def remaining_ids(self) -> list[str]:
        """Ids of the letters that `next_page` has not returned."""
        return [id_of_sort_key(key) for key in self._sort_keys[self._position :]]

    async def find(self, until: str, known: Collection[str] = ()) -> list[ReplayResult]:
        """Find the selected letters, none newer than `until`, and look up late ones in the ledger.

        Returns results for wanted ids that do not exist and are not `known` either. Raises ArchiveError.
        """
        now = await self._now()
        async for letter in self._letters.find(self._options.where, until=until):
            self._sort_keys.append(sort_key(letter))
            if self._options.force_late:
                self._check_later(letter, now)
        self._sort_keys.sort()
        await self._late_check.read_ledger(self._ladder, now)
        wanted = self._options.where.ids
        found = {id_of_sort_key(key) for key in self._sort_keys}.union(known) if wanted else ()
        detail = "there is no such dead letter, or the filters leave it out"
        return [ReplayResult(item, ReplayOutcome.GONE, detail) for item in wanted if item not in found]

    async def next_page(self) -> list[Replayable | ReplayResult]:
        """The next letters; each that is not to be replayed is a result instead."""
        page = self._sort_keys[self._position : self._position + _PAGE]
        if not page:
            return []
        self._position += len(page)
        ids = [id_of_sort_key(key) for key in page]
        now = await self._now()
        return [
            self._decide(letter, now) if letter else ReplayResult(letter_id, ReplayOutcome.GONE)
            for letter_id, letter in zip(ids, await self._letters.get(ids), strict=True)
        ]

    async def _now(self) -> int:
        return await server_time(self._ladder.redis, self._ladder.keys.inbox)

    def _check_later(self, letter: DeadLetterEntry, now: int) -> None:
        read = read_dead_letter(letter.message, self._ladder, now)
        if isinstance(read, Problem) and read.reason is Reason.TOO_LATE:
            message = read_dead_letter(letter.message, self._ladder, now, force_late=True)
            if not isinstance(message, Problem):
                self._late_check.add(message)

    def _decide(self, letter: DeadLetterEntry, now: int) -> Replayable | ReplayResult:
        if not letter.message:
            detail = "it holds no message; discard it"
            return ReplayResult(letter.id, ReplayOutcome.PARKED, detail, letter.reason)
        read = read_dead_letter(letter.message, self._ladder, now)
        if not isinstance(read, Problem):
            return self._replayable(letter, "", letter.history)
        detail = read.detail
        if read.reason is Reason.TOO_LATE:
            if self._options.force_late:
                forced = self._force(letter, now)
                if isinstance(forced, Replayable):
                    return forced
                detail += f"; not forced: {forced}"
            else:
                detail += "; only a forced replay rates it"
        if read.reason in PARKED and not self._options.include_parked:
            return ReplayResult(letter.id, ReplayOutcome.PARKED, detail, read.reason.value)
        return self._replayable(letter, detail, letter.history)

    def _force(self, letter: DeadLetterEntry, now: int) -> Replayable | str:
        """A late letter with the proof that it had no effect, or why there is no proof."""
        message = read_dead_letter(letter.message, self._ladder, now, force_late=True)
        if isinstance(message, Problem):
            return message.detail
        if contradiction := self._late_check.contradiction(message):
            return contradiction
        uncertainty, statement = self._late_check.uncertainty(message), self._options.never_rated
        if uncertainty and not statement:
            return f"{uncertainty}, so somebody has to say that it was not rated"
        why = statement or "the ledger goes back to its day and does not show it"
        proof = "statement" if uncertainty else "ledger"
        history = letter.with_history(at=now, by=self._options.by, why=why, force_late=proof)
        return self._replayable(
            letter, "", history, force_late=True, games=self._late_check.expired_games(message)
        )

    def _replayable(
        self,
        letter: DeadLetterEntry,
        detail: str,
        history: str,
        *,
        force_late: bool = False,
        games: Sequence[tuple[str, str, int]] = (),
    ) -> Replayable:
        replay = {
            "run": self._replay_name,
            "letter": letter.id,
            "attempts": max(letter.attempts, 0),
            "first_seen": letter.first_seen or stream_id_ms(letter.id),
            "history": history,
            "force_late": force_late,
        }
        move = InboxMove(letter.id, json.dumps(replay, ensure_ascii=True), history, games)
        return Replayable(letter, move, detail, force_late)
