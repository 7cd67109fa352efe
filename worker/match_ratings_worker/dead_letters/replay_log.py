"""A replay's log in Redis: its options and the result of each letter, so that it can be resumed by name."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from match_ratings_worker.storage import LadderHandle

from .dead_letter_filter import DeadLetterFilter
from .dead_letter_store import DeadLetterStore
from .replay_results import ReplayResult

#: The field that holds the newest letter of the replay and its options, JSON; all others are letter ids.
_OPTIONS: Final = "options"
#: Seconds for which the log is kept after its last result: a week.
_KEEP_SECONDS: Final = 604_800


class UnknownReplay(Exception):
    """Raised when there is no replay of this name, or none any more."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Which letters to replay, and how."""

    where: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    #: Letters a second at most; None for as many as the workers take.
    rate: float | None = None
    #: Also replay what a replay cannot help now.
    include_parked: bool = False
    #: Also replay what is older than the horizon, if it was not rated.
    force_late: bool = False
    #: The operator's statement that it was not rated, with the reason, where the ledger cannot tell.
    never_rated: str = ""
    by: str = ""
    #: Entries that the inbox may hold at most; fewer where the workers are slow.
    inbox_limit: int = 512
    #: Seconds without any progress after which the replay ends.
    timeout: float = 30.0

    def to_json(self) -> str:
        """The stored form."""
        return json.dumps(asdict(self), default=sorted)  # the reasons are the only set

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the stored form."""
        data: dict[str, Any] = json.loads(text)
        where = data.pop("where")
        where |= {"ids": tuple(where["ids"]), "reasons": frozenset(where["reasons"])}
        return cls(DeadLetterFilter(**where), **data)


class InFlight(NamedTuple):
    """A letter that was moved into the inbox and is not settled yet."""

    inbox_id: str
    #: What this installation finds wrong with it; empty when nothing.
    detail: str = ""


def new_replay_name() -> str:
    """A name that no other replay has."""
    return secrets.token_hex(8)


class ReplayLog:
    """The hash of one replay, and its letters in flight."""

    def __init__(self, ladder: LadderHandle, name: str) -> None:
        """A name other than 1-64 ASCII letters and digits raises ValueError."""
        if not (name.isascii() and name.isalnum() and len(name) <= 64):
            msg = "a replay's name is 1-64 ASCII letters and digits"
            raise ValueError(msg)
        self._letters = DeadLetterStore(ladder)
        self._redis = ladder.redis
        self._key = ladder.keys.replay_ + name
        #: The newest letter that belongs to the replay.
        self.until = "0-0"
        self.in_flight: dict[str, InFlight] = {}
        #: Inbox id -> new id and detail of letters that are dead letters again.
        self._died: dict[str, tuple[str, str]] = {}
        self._read_to = "0-0"

    async def begin(self, options: ReplayOptions | None) -> tuple[ReplayOptions, list[ReplayResult]]:
        """Begin or resume the replay; return the options that it began with and the results so far.

        Raises UnknownReplay when there is none of this name and no options are given.
        """
        is_new = False
        if options is not None:
            until = await self._letters.newest_id()
            text = json.dumps({"until": until, "options": options.to_json()})
            is_new = await self._redis.hsetnx(self._key, _OPTIONS, text)  # type: ignore[misc] # for both clients
        stored = await self._redis.hget(self._key, _OPTIONS)  # type: ignore[misc] # for both clients
        if stored is None:
            raise UnknownReplay
        await self._redis.expire(self._key, _KEEP_SECONDS)
        data = json.loads(stored)
        self.until = self._read_to = data["until"]
        return ReplayOptions.from_json(data["options"]), [] if is_new else await self._earlier()

    async def _earlier(self) -> list[ReplayResult]:
        """Results from before the replay was interrupted; notes what was in flight then."""
        texts: dict[str, str] = {}  # a scan may bring a field twice
        async for name, value in self._redis.hscan_iter(self._key, count=500):
            texts[name.decode()] = value.decode()
        del texts[_OPTIONS]
        for letter, text in texts.items():
            if text.startswith("moved "):
                self.in_flight[letter] = InFlight(text.removeprefix("moved "))
        return [
            ReplayResult.from_log(letter, text)
            for letter, text in texts.items()
            if letter not in self.in_flight
        ]

    async def collect(self) -> list[ReplayResult]:
        """Take settled letters out of `in_flight` and return their results."""
        if not self.in_flight:
            return []
        waiting = list(self.in_flight)
        texts = await self._redis.hmget(self._key, waiting)  # type: ignore[misc] # for both clients
        results = [
            ReplayResult.from_log(letter, text.decode())
            for letter, text in zip(waiting, texts, strict=True)
            if text is not None and not text.startswith(b"moved ")
        ]
        if any(result.reason for result in results):
            await self._read_new_dead_letters()
        return [self._with_detail(result) for result in results]

    def _with_detail(self, result: ReplayResult) -> ReplayResult:
        moved = self.in_flight.pop(result.letter)
        if not result.reason:
            return result
        new_id, detail = self._died.pop(moved.inbox_id, ("", moved.detail))
        return replace(result, detail=detail, new_id=new_id)

    async def _read_new_dead_letters(self) -> None:
        inbox_ids = {moved.inbox_id for moved in self.in_flight.values()}
        async for letter in self._letters.newer_than(self._read_to):
            self._read_to = letter.id
            if letter.source_id in inbox_ids:
                self._died[letter.source_id] = letter.id, letter.detail
