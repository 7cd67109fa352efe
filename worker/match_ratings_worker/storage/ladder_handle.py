"""A ladder in Redis and this installation's settings for it, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from redis.asyncio import Redis

from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.time_units import DAY_MS, keep_games_ms

from .pipelined_connection import ClientExecutor, CommandExecutor
from .redis_keys import Keys


@dataclass(frozen=True)
class LadderHandle:
    """A ladder, the client that reaches it, and this installation's settings for it."""

    #: A client that returns bytes (decode_responses off).
    redis: Redis
    name: str
    #: The system as configured here; the ladder's adopted settings may differ.
    system: RatingSystem
    #: How old a match may be, and how long receipts are kept, in ms.
    horizon_ms: int = 14 * DAY_MS
    #: How long a silent worker still counts as running, in ms.
    idle_ms: int = 10_000
    #: The SQLite file with the events that have left Redis; None when there is none.
    archive: Path | None = None
    #: Whether this installation rates beside another rater, into keys of its own.
    shadow: bool = False

    @cached_property
    def keys(self) -> Keys:
        """The ladder's keys, or its shadow's."""
        return Keys(self.name, shadow=self.shadow)

    @cached_property
    def executor(self) -> CommandExecutor:
        """Carry out scripts over the client's own commands, one at a time."""
        return ClientExecutor(self.redis)

    @property
    def keep_games_ms(self) -> int:
        """How long a ranked game is kept for the window, in ms."""
        return keep_games_ms(self.horizon_ms)
