"""The letters that a replay is about, page by page, in the order in which they first entered the inbox."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from match_ratings_worker.dead_letters.letter_filter import id_of, order_key
from match_ratings_worker.dead_letters.letter_store import Letters, Setup
from match_ratings_worker.dead_letters.prepare_replay import Ready, ReplayPlanner
from match_ratings_worker.dead_letters.replay_options import Order
from match_ratings_worker.dead_letters.replay_outcome import Outcome, Result
from match_ratings_worker.queries import DeadLetterEntry, server_time

__all__ = ["Candidate", "ReplayCandidates"]

#: Letters that are read in one step.
_PAGE: Final = 64


class Candidate(NamedTuple):
    """A letter and what is to be done with it."""

    letter: DeadLetterEntry
    #: A result when nothing is to be done.
    plan: Ready | Result


class ReplayCandidates:
    """First `find`, then `next` until nothing comes. Only the ids are in memory, 40 bytes for each."""

    def __init__(self, letters: Letters, setup: Setup, order: Order, run: str) -> None:
        self._letters = letters
        self._order = order
        self._preparing = ReplayPlanner(setup, order, run)
        self._keys: list[bytes] = []
        self._place = 0

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def more(self) -> bool:
        """Whether some are still to come."""
        return self._place < len(self._keys)

    @property
    def rest(self) -> list[str]:
        """The ids of those that are still to come."""
        return [id_of(key) for key in self._keys[self._place :]]

    async def find(self, until: str, known: Collection[str] = ()) -> list[Result]:
        """Finds the letters that are meant, none newer than `until`.

        Returns results for ids that are not there and not `known` either.
        """
        now = await self._now()
        async for letter in self._letters.find(self._order.where, until=until):
            self._keys.append(order_key(letter))
            self._preparing.note(letter, now)
        self._keys.sort()
        await self._preparing.look(self._letters.redis, now)
        wanted = self._order.where.ids
        found = {id_of(key) for key in self._keys}.union(known) if wanted else ()
        detail = "there is no such dead letter, or the filters leave it out"
        return [Result(item, Outcome.GONE, detail) for item in wanted if item not in found]

    async def next(self) -> list[Candidate | Result]:
        """The next page; results stand for letters that are gone meanwhile."""
        keys = self._keys[self._place : self._place + _PAGE]
        if not keys:
            return []
        self._place += len(keys)
        ids = [id_of(key) for key in keys]
        now = await self._now()
        return [
            Candidate(letter, self._preparing.ready(letter, now))
            if letter
            else Result(letter_id, Outcome.GONE)
            for letter_id, letter in zip(ids, await self._letters.get(ids), strict=True)
        ]

    async def _now(self) -> int:
        return await server_time(self._letters.redis, self._letters.keys.inbox)
