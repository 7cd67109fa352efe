"""What a worker knows of its messages: entries, what Redis held, and what is to become of them.

Plain values that the store, the engine and the pure rules hand to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from match_ratings.messages import Message
from match_ratings_worker.pipeline.validate_message import Problem
from match_ratings_worker.rating import State
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.units import DAY_MS

__all__ = [
    "Action",
    "Change",
    "Commit",
    "CommitStatus",
    "Entry",
    "Limits",
    "Player",
    "Replay",
    "Snapshot",
]

#: What is done with a message, and how it is counted everywhere; `closed` is the end of a rating period.
Action = Literal["rated", "prize", "void", "not-rated", "duplicate", "dead", "closed"]


class Replay(NamedTuple):
    """A dead letter's past, which goes with its message through a replay."""

    #: The replay's name, a space, and the dead letter's id.
    tag: str
    #: How often it was claimed before it became a dead letter.
    attempts: int
    first_seen: int
    #: Edits by people, JSON; "" when there are none.
    history: str = ""
    #: Rate it however old it is.
    force_late: bool = False


@dataclass(slots=True)
class Entry:
    """A claimed message on its way through this worker."""

    #: Its id in the inbox.
    id: str
    #: How often it was claimed or failed, this time included.
    attempts: int
    #: The players on whose lines it stands.
    players: tuple[str, ...] = ()
    #: The key of its receipt; "" when it has none.
    receipt: str = ""
    #: When it was claimed, nothing stood before it: no earlier message with this match id, and none
    #: on its players' lines.
    alone: bool = False
    message: Message | None = None
    digest: str = ""
    problem: Problem | None = None
    #: When a failed rating may be tried again, in ms of the worker's own clock.
    retry_at: float = 0
    #: The server's time at the claim, in ms.
    claimed_at: int = 0
    #: What the claim read of its players, when nothing else can change it: values and recent games.
    standings: list[Any] | None = None
    #: Where it comes from, when it is a dead letter that is replayed.
    replay: Replay | None = None


@dataclass(slots=True)
class Player:
    """A player as stored: the state, the count of changes, and the head of the line."""

    state: State
    sequence: int
    line: Sequence[str]
    #: What is wrong with the stored state; None when it can be read.
    fault: str | None = None
    #: Finish times in ms of games rated earlier in this batch.
    fresh: list[int] = field(default_factory=list)
    #: How many of the line's ids this batch has passed.
    passed: int = 0


@dataclass(slots=True)
class Snapshot:
    """What Redis held when the batch was read."""

    #: The server's time in ms.
    now: int
    players: dict[str, Player]
    #: (entry id, player) -> stored ranked games in the 7 days before that entry's match; a text when
    #: they cannot be read.
    windows: dict[tuple[str, str], int | str]
    #: Receipt key -> receipt; those that were not read have none.
    receipts: dict[str, Receipt]
    #: Entry id of a void -> the event, JSON, of the match that it takes back.
    events: dict[str, bytes] = field(default_factory=dict)
    #: Entry id of a void -> the receipt key of the match that it takes back.
    match_receipts: dict[str, str] = field(default_factory=dict)


class Change(NamedTuple):
    """A player's new state, as the commit script writes it."""

    #: The count of changes as read, and as written.
    read: int
    written: int
    state: State
    #: Whether the player stands on the leaderboard.
    listed: bool
    #: Whether the window wants tidying: once on each day with a game.
    tidy: bool
    #: When the open rating period ends, in ms; 0 when none is open, "" when nothing changes about it.
    closes_at: int | str


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a worker takes at once, and when it gives up."""

    #: Messages claimed in one step.
    batch: int = 256
    #: Messages committed in one script call, so that Redis is never held for more than about 2 ms.
    chunk: int = 64
    #: Claimed messages that may wait in memory before no more are claimed.
    waiting: int = 512
    #: Claims or failures after which a message is a dead letter.
    attempts: int = 10
    #: How old a match may be, in ms.
    horizon: int = 14 * DAY_MS
    #: How long a consumer must be silent before its messages are taken over, in ms.
    idle: int = 30_000


class CommitStatus(IntEnum):
    """The reply of commit_messages.lua for a message that raised no error."""

    #: It was carried out.
    DONE = 1
    #: It is not its turn yet, or something changed since it was read; nothing was written.
    CHANGED = 0
    #: It is no longer in the inbox: another worker settled it.
    MISSING = -1


@dataclass(slots=True)
class Commit:
    """What the commit script is to do with one message, and for the log what it means."""

    action: Action
    entry: Entry
    #: rated, not-rated: how long the receipt is kept, in ms.
    ttl: int = 0
    #: rated, prize, void, closed: the events, JSON; the last is the message's own.
    events: list[bytes] = field(default_factory=list)
    #: rated, void: the match id and finish time in ms of the game that enters the window; the time is "" when
    #: the game is taken out, both are "" when it is none.
    game: tuple[str, int | str] = ("", "")
    #: rated, prize, void, closed: what becomes of each player.
    changes: list[Change] = field(default_factory=list)
    #: dead: why.
    problem: Problem | None = None
