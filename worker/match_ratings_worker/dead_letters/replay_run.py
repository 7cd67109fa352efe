"""A replay's run: the hash in Redis that says what became of each letter, and what is on its way."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import Final, NamedTuple

from match_ratings_worker.dead_letters.letter_store import Letters
from match_ratings_worker.dead_letters.replay_options import Order
from match_ratings_worker.dead_letters.replay_outcome import Outcome, Result

__all__ = ["Run", "Sent", "UnknownReplay", "is_replay_name", "new_replay_name"]

#: The run's own field: JSON, the newest letter that belongs to it and the order.
_RUN: Final = "run"
#: Seconds for which a run is kept after its last outcome: a week.
_KEPT: Final = 604_800


class Sent(NamedTuple):
    """A letter that was moved into the inbox."""

    inbox_id: str
    #: What is wrong with it as far as this installation knows; "" when nothing is.
    detail: str = ""


class _Letter(NamedTuple):
    id: str
    detail: str


def new_replay_name() -> str:
    """A name that no other run has."""
    return secrets.token_hex(8)


def is_replay_name(name: str) -> bool:
    """Whether a run may have this name: 1-64 ASCII letters and digits."""
    return name.isascii() and name.isalnum() and len(name) <= 64


class UnknownReplay(Exception):
    """There is no run of this name, or none any more."""


class Run:
    """One replay, as Redis knows it."""

    def __init__(self, letters: Letters, name: str) -> None:
        self._letters = letters
        self._redis = letters.redis
        self._key = letters.keys.run_ + name
        #: The newest letter that belongs to it.
        self.until = "0-0"
        #: Letters on their way.
        self.sent: dict[str, Sent] = {}
        #: Inbox id -> dead letter, of those that have died again.
        self._died: dict[str, _Letter] = {}
        self._read_to = "0-0"

    async def begin(self, order: Order | None) -> tuple[Order, list[Result]]:
        """Begins, or takes up what was begun under this name; the order, and the results there are already.

        Raises UnknownRun when there is no such run and no order.
        """
        is_new = False
        if order is not None:
            about = json.dumps({"until": await self._letters.newest(), "order": order.to_json()})
            is_new = await self._redis.hsetnx(self._key, _RUN, about)  # type: ignore[misc] # for both clients
        kept = await self._redis.hget(self._key, _RUN)  # type: ignore[misc] # for both clients
        if kept is None:
            raise UnknownReplay
        await self._redis.expire(self._key, _KEPT)
        data = json.loads(kept)
        self.until = self._read_to = data["until"]
        found = Order.from_json(data["order"])
        return found, [] if is_new else await self._earlier()

    async def _earlier(self) -> list[Result]:
        """What became of letters before it was cut off; what is on its way is noted."""
        texts: dict[str, str] = {}  # a scan may bring a field twice
        async for field, value in self._redis.hscan_iter(self._key, count=500):
            texts[field.decode()] = value.decode()
        del texts[_RUN]
        for letter, text in texts.items():
            if text.startswith("moved "):
                self.sent[letter] = Sent(text.removeprefix("moved "))
        return [Result.of_run(letter, text) for letter, text in texts.items() if letter not in self.sent]

    async def collect(self) -> list[Result]:
        """Takes what is settled off `sent`, with its results."""
        if not self.sent:
            return []
        waiting = list(self.sent)
        texts = await self._redis.hmget(self._key, waiting)  # type: ignore[misc] # for both clients
        results = [
            Result.of_run(letter, text.decode())
            for letter, text in zip(waiting, texts, strict=True)
            if text is not None and not text.startswith(b"moved ")
        ]
        if any(result.reason for result in results):
            await self._catch_up()
        return [self._finished(result) for result in results]

    def _finished(self, result: Result) -> Result:
        sent = self.sent.pop(result.letter)
        if not result.reason:
            return result
        died = self._died.pop(sent.inbox_id, None)
        if died is None:
            return replace(result, detail=sent.detail)
        return replace(result, detail=died.detail, now=died.id)

    async def _catch_up(self) -> None:
        """Reads on in the dead letters, for what died again."""
        inbox_ids = {sent.inbox_id for sent in self.sent.values()}
        async for letter in self._letters.died_after(self._read_to):
            self._read_to = letter.id
            if letter.source_id in inbox_ids:
                self._died[letter.source_id] = _Letter(letter.id, letter.detail)

    def rest(self) -> list[Result]:
        """What is still on its way."""
        return [Result(letter, Outcome.WAITING) for letter in self.sent]
