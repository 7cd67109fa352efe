"""The values that the modules of the pipeline exchange: claimed messages, stored data, and changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from match_ratings.messages import Message
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.storage import Receipt
from match_ratings_worker.time_units import DAY_MS

from .validate_message import Problem

#: What is done with a message, and how it is counted everywhere; `closed` is the end of a rating period.
Action = Literal["rated", "prize", "void", "not-rated", "duplicate", "dead", "closed"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a worker takes at once, and when it gives up."""

    #: Messages claimed in one step.
    batch: int = 256
    #: Messages committed in one script call: Redis is held for about 2 ms.
    chunk: int = 64
    #: Claimed messages in memory at which no more are claimed.
    waiting: int = 512
    #: Claims or failures after which a message is a dead letter.
    attempts: int = 10
    #: Greatest age of a match, in ms.
    horizon: int = 14 * DAY_MS
    #: Silence of a consumer after which its messages are taken over, in ms.
    idle: int = 30_000


class LadderRules(NamedTuple):
    """What a ladder's messages are rated by."""

    ladder: str
    system: RatingSystem
    #: Greatest age of a match, in ms.
    horizon_ms: int


class ReplayOrigin(NamedTuple):
    """The past of a replayed dead letter, sent along with its message."""

    #: The replay's name, a space, and the dead letter's id.
    tag: str
    #: Claims before it became a dead letter.
    attempts: int
    #: When it first entered the inbox, in ms.
    first_seen: int
    #: Edits by people, JSON; "" when there are none.
    history: str = ""
    #: Whether it is rated whatever its age.
    force_late: bool = False


@dataclass(slots=True)
class InboxEntry:
    """A claimed message on its way through this worker."""

    #: Its id in the inbox.
    id: str
    #: Claims and failures, this one included.
    attempts: int
    #: The players on whose lines it is.
    players: tuple[str, ...] = ()
    #: The key of its receipt; "" when it has none.
    receipt: str = ""
    #: Whether at its claim no earlier message had its effect id and nothing else was on its players' lines.
    exclusive: bool = False
    message: Message | None = None
    digest: str = ""
    problem: Problem | None = None
    #: Earliest time of the next attempt after a failure, in ms of the monotonic clock.
    retry_at: float = 0
    #: The server's time at the claim, in ms.
    claimed_at: int = 0
    #: For each player the stored values and recent games as of the claim, when nobody else can change them.
    player_states: list[Any] | None = None
    #: Where it comes from, when it is a replayed dead letter.
    replay: ReplayOrigin | None = None


class StateChange(NamedTuple):
    """A player's new state, as the commit script writes it."""

    #: The sequence as read, and as written.
    read: int
    written: int
    state: State
    #: Whether the player is on the leaderboard.
    listed: bool
    #: Whether the window is tidied: once on each day with a game.
    tidy: bool
    #: End of the open rating period in ms; 0 when none is open, "" when it stays as it is.
    closes_at: int | str


@dataclass(slots=True)
class PlayerState:
    """A player's stored state and line, carried forward from message to message of a batch."""

    state: State
    sequence: int
    line: Sequence[str]
    #: Why the stored state cannot be read; None when it can.
    fault: str | None = None
    #: Finish times in ms of games rated earlier in this batch.
    games_in_batch: list[int] = field(default_factory=list)
    #: Ids of the line that this batch has passed.
    passed: int = 0

    def is_next(self, entry_id: str) -> bool:
        """Whether a message is the next on this player's line."""
        return self.passed < len(self.line) and self.line[self.passed] == entry_id

    def advance(self, change: StateChange | None, commit: Commit) -> None:
        """Carry the player past the message of a commit, with the change that it made."""
        if change is not None:
            self.state, self.sequence = change.state, change.written
        if commit.action == "rated":
            self.games_in_batch.append(int(commit.game[1]))
        elif commit.action == "void":
            # The games counted when the batch was read include the voided one: nothing more goes.
            self.line = self.line[: self.passed]
        self.passed += 1


@dataclass(slots=True)
class BatchSnapshot:
    """The stored data that a batch needs, read at one moment."""

    #: The server's time in ms.
    now: int
    players: dict[str, PlayerState]
    #: (entry id, player) -> stored ranked games in the window before that entry's match, or an error text.
    windows: dict[tuple[str, str], int | str]
    #: Receipt key -> receipt; keys that were not read are missing.
    receipts: dict[str, Receipt]
    #: Entry id of a void -> the event, JSON, of the match that it voids.
    events: dict[str, bytes] = field(default_factory=dict)
    #: Entry id of a void -> the receipt key of the match that it voids.
    match_receipts: dict[str, str] = field(default_factory=dict)


class CommitStatus(IntEnum):
    """The reply of commit_batch.lua for a message that raised no error."""

    #: It was carried out.
    DONE = 1
    #: It is not its turn yet, or something changed since it was read; nothing was written.
    CHANGED = 0
    #: It is no longer in the inbox: another worker settled it.
    MISSING = -1


@dataclass(slots=True)
class Commit:
    """What the commit script does with one message."""

    action: Action
    entry: InboxEntry
    #: rated, prize, void, not-rated: how long the receipt is kept, in ms.
    ttl: int = 0
    #: rated, prize, void, closed: the events, JSON; the last is the message's own.
    events: list[bytes] = field(default_factory=list)
    #: rated, void: match id and finish time in ms of the game that enters the window; the time is "" when
    #: the game is removed, both are "" when there is none.
    game: tuple[str, int | str] = ("", "")
    #: rated, prize, void, closed: the change of each player.
    changes: list[StateChange] = field(default_factory=list)
    #: dead: what is wrong.
    problem: Problem | None = None
