"""A ladder of a test's own and what every test does with one: fill its inbox, make engines, look at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from match_ratings import RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon, RatingSystem
from match_ratings_worker.storage.dead_letter_format import DeadLetterEntry, read_dead_letters
from match_ratings_worker.storage.ladder_handle import LadderHandle
from tests.support.clock import DAY, now_ms
from tests.support.model import raw

Json = dict[str, Any]


class LadderHarness:
    """One ladder and one rating system on a server."""

    horizon: ClassVar[int] = 14 * DAY
    #: After how many ms its engines take over from silent ones.
    idle: ClassVar[int] = 0

    def __init__(self, redis: Any, ladder: str, system: RatingSystem | None = None) -> None:
        self.redis, self.ladder, self.system = redis, ladder, system or Backgammon()
        self.handle = LadderHandle(
            redis, ladder, self.system, horizon_ms=self.horizon, idle_ms=self.idle or 30_000
        )
        self.store = self.new_store()
        self.keys = self.store.keys
        self.now = now_ms()

    def new_store(self) -> LadderStore:
        return LadderStore(self.redis, self.ladder, self.system, horizon=self.horizon)

    def engine(self, name: str = "one", **limits: Any) -> BatchProcessor:
        """A worker without its loop."""
        wanted = Limits(**{"horizon": self.horizon, "idle": self.idle, **limits})
        return BatchProcessor(self.new_store(), self.ladder, self.system, name, wanted)

    def encode(self, message: Json) -> bytes:
        """The message as it is sent: to this ladder, finished just now unless it says when."""
        return raw({"finished_at": self.now, **message, "ladder": self.ladder})

    async def send(self, *messages: Json | bytes | None) -> list[str]:
        """Puts messages into the inbox (None: an entry without one); returns their ids."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for message in messages:
                text = self.encode(message) if isinstance(message, dict) else message
                pipe.xadd(self.keys.inbox, {"other": "field"} if text is None else {FIELD: text})
            return [entry_id.decode() for entry_id in await pipe.execute()]

    async def events(self) -> list[RatingUpdated]:
        """The ledger, each event with its id."""
        return [
            RatingUpdated.model_validate_json(fields[b"message"]).model_copy(update={"id": entry_id.decode()})
            for entry_id, fields in await self.redis.xrange(self.keys.outbox)
        ]

    async def dead_letters(self) -> list[DeadLetterEntry]:
        """The dead letters, oldest first."""
        return [letter async for letter in read_dead_letters(self.redis, self.keys)][::-1]

    async def dead(self) -> list[tuple[str, str]]:
        """Reason and detail of each dead letter."""
        return [(letter.reason, letter.detail) for letter in await self.dead_letters()]

    async def counts(self) -> dict[str, int]:
        stored = await self.redis.hgetall(self.keys.counts)
        return {name.decode(): int(number) for name, number in stored.items()}

    async def dump(self, *, without: Iterable[str] = ()) -> dict[str, Any]:
        """All that the ladder has in Redis, but what these keys hold."""
        found: dict[str, Any] = {}
        scope = f"ratings:{{{self.ladder}}}:"
        for key in sorted(await self.redis.keys(f"{scope}*")):
            name = key.decode("utf-8", "backslashreplace")
            if name.removeprefix(scope) in without:
                continue
            kind = (await self.redis.type(key)).decode()
            if kind == "stream":
                found[name] = await self.redis.xrange(key)
            elif kind == "zset":
                found[name] = await self.redis.zrange(key, 0, -1, withscores=True)
            elif kind == "hash":
                found[name] = await self.redis.hgetall(key)
            elif kind == "list":
                found[name] = await self.redis.lrange(key, 0, -1)
            else:
                found[name] = await self.redis.get(key)
        return found
