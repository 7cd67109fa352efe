"""Decides what becomes of a batch of messages: pure rules from a snapshot to commits.

Messages are taken in the order of the stream and the players' states are carried forward within the
batch. A message goes only when it is next on the line of each of its players; otherwise it waits, and
so does what stands behind it. The oldest message of a ladder never waits, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from contracts import Cause, MatchFinished, Mode, Reason
from contracts.messages import VERSION
from worker.rating import Game, InvalidGame, Number, RatingSystem, State
from worker.validation import Message, Problem, quote

__all__ = ["DAY_MS", "WINDOW_MS", "Commit", "Entry", "Player", "Snapshot", "decide"]

DAY_MS = 86_400_000
#: The window in which a player's ranked games are counted: 7 x 24 h.
WINDOW_MS = 7 * DAY_MS
#: A receipt outlives the horizon by this much, so that no message can slip in between, in ms.
_RECEIPT_SLACK_MS = 3_600_000

Verb = Literal["rate", "aside", "again", "dead"]


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
    #: Receipt key -> its text, "" when there is none.
    receipts: dict[str, str]


@dataclass(slots=True)
class Commit:
    """What the commit script is to do with one message, and for the log what it means."""

    verb: Verb
    entry: Entry
    #: rate, aside: how long the receipt is kept, in ms.
    ttl: int = 0
    #: rate: the event, JSON.
    event: bytes = b""
    #: rate: whether it is a game that counts in the window.
    game: bool = False
    #: rate: for each player the sequence as read, the new state, whether on the leaderboard, and
    #: whether the window wants tidying: once on each day with a game.
    states: list[tuple[int, State, bool, bool]] = field(default_factory=list)
    #: dead: why.
    problem: Problem | None = None


def decide(
    entries: Iterable[Entry],
    snapshot: Snapshot,
    *,
    ladder: str,
    system: RatingSystem,
    horizon: int,
    failed: dict[str, Exception] | None = None,
) -> Iterator[Commit]:
    """The commits for those of `entries` (in stream order) whose turn it is; the others wait.

    One after another, so that the first can be sent to Redis while the next are worked out.

    A rating that raises costs its own message an attempt and nothing else: it is put into `failed`
    and keeps its place. The players in `snapshot` are carried forward and are stale afterwards.
    """
    for entry in entries:
        players = [snapshot.players[name] for name in entry.players]
        if not _is_next(entry.id, players):
            continue
        try:
            commit = _settled(entry, snapshot.receipts) or _rated(
                entry, players, snapshot, ladder, system, horizon
            )
        except InvalidGame as error:
            commit = Commit("dead", entry, problem=Problem(Reason.INVALID, str(error)))
        except Exception as error:  # whatever a system or a stored value does, the batch goes on
            if failed is not None:
                failed[entry.id] = error
            continue
        if commit is None:
            continue
        for player in players:
            player.passed += 1
        if commit.verb in ("rate", "aside"):
            snapshot.receipts[entry.receipt] = f"* {entry.digest}"
        yield commit


def _is_next(entry_id: str, players: list[Player]) -> bool:
    """Whether a message is the next on the line of each of its players."""
    for player in players:
        if player.passed >= len(player.line) or player.line[player.passed] != entry_id:
            return False
    return True


def _settled(entry: Entry, receipts: dict[str, str]) -> Commit | None:
    """What to do with a message whose match has had its effect; None when it has not."""
    receipt = receipts.get(entry.receipt, "")
    if not receipt or receipt.startswith("? "):
        return None
    settled = receipt.partition(" ")[2]
    if settled == entry.digest:
        return Commit("again", entry)
    detail = (
        f"{'match_id' if isinstance(entry.message, MatchFinished) else 'tournament_id'}: "
        f"{quote(_effect_id(entry.message))} was received before with other content; it is not rated again"
    )
    return Commit("dead", entry, problem=Problem(Reason.CONFLICT, detail))


def _effect_id(message: Message | None) -> str:
    if message is None:
        return ""
    return message.match_id if isinstance(message, MatchFinished) else message.tournament_id


def _rated(
    entry: Entry, players: list[Player], snapshot: Snapshot, ladder: str, system: RatingSystem, horizon: int
) -> Commit | None:
    receipt = snapshot.receipts.get(entry.receipt, "")
    if receipt.startswith("? ") and receipt.split(" ", 2)[1] != entry.id:
        return None  # an earlier message with the same match id comes first
    message = entry.message
    if message is None:
        return None
    ttl = max(message.finished_at - snapshot.now, 0) + horizon + _RECEIPT_SLACK_MS
    for name, player in zip(entry.players, players, strict=True):
        if player.fault is not None:
            fault = f"the stored state of player {quote(name)} cannot be read: {player.fault}"
            raise RuntimeError(fault)
    if isinstance(message, MatchFinished):
        return _match(entry, message, players, snapshot, ladder, system, ttl)
    if not message.public:
        return Commit("aside", entry, ttl=ttl)
    states, parts = [], []
    for name, player, points in zip(entry.players, players, message.prizes, strict=True):
        before = player.state
        after = system.award(before, points)
        parts.append(_part(name, player, before.rating, after.rating - before.rating, after.rating))
        states.append(_carry(player, after, system, snapshot.now))
    head = {"cause": Cause.PRIZE, "tournament_id": message.tournament_id, "ladder": ladder}
    rules = system.rules_at(message.finished_at)
    event = _event(head, system, rules, message.finished_at, snapshot.now, late=False, players=parts)
    return Commit("rate", entry, ttl=ttl, event=event, states=states)


def _match(
    entry: Entry,
    message: MatchFinished,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
    ttl: int,
) -> Commit:
    if message.mode is not Mode.RANKED:
        return Commit("aside", entry, ttl=ttl)
    first, second = players
    names, finished_at, now = entry.players, message.finished_at, snapshot.now
    if message.winner is None:
        scores: tuple[float, float] = (0.5, 0.5)
    else:
        scores = (1, 0) if message.winner == names[0] else (0, 1)
    recent = (
        _recent_games(first, names[0], snapshot.windows[entry.id, names[0]], finished_at),
        _recent_games(second, names[1], snapshot.windows[entry.id, names[1]], finished_at),
    )
    game = Game(finished_at, scores, recent, message.cube, message.length)
    if not system.rates(game):
        return Commit("aside", entry, ttl=ttl)
    outcome = system.rate(first.state, second.state, game)
    late = finished_at < first.state.last_game or finished_at < second.state.last_game
    states, parts = [], []
    for player, name, side, score, games in zip(
        players, names, outcome.sides, scores, recent, strict=True
    ):
        before = player.state
        part = _part(name, player, before.rating, side.change, side.rating)
        part["score"], part["expected"], part["recent_games"] = score, side.expected, games
        if side.k is not None:
            part["k"] = side.k
        if side.figures:
            part["figures"] = side.figures
        parts.append(part)
        after = State(side.rating, before.games + 1, max(before.last_game, finished_at), side.extra)
        player.fresh.append(finished_at)
        states.append(_carry(player, after, system, now))
    head: dict[str, Any] = {
        "cause": Cause.MATCH,
        "match_id": message.match_id,
        "ladder": ladder,
        "cube": message.cube,
    }
    if outcome.coefficient is not None:
        head["coefficient"] = outcome.coefficient
    figures = outcome.figures
    if message.length is not None:
        figures = {**figures, "length": message.length}
    if figures:
        head["figures"] = figures
    event = _event(head, system, outcome.rules, finished_at, now, late=late, players=parts)
    return Commit("rate", entry, ttl=ttl, event=event, game=True, states=states)


def _recent_games(player: Player, name: str, stored: int | str, finished_at: int) -> int:
    """Ranked games in the 7 days before a game: the stored ones and those of this batch."""
    if isinstance(stored, str):
        fault = f"the stored games of player {quote(name)} cannot be read: {stored}"
        raise RuntimeError(fault)
    if not player.fresh:
        return stored
    opens = finished_at - WINDOW_MS
    return stored + sum(opens <= time < finished_at for time in player.fresh)


def _part(name: str, player: Player, before: Number, change: Number, after: Number) -> dict[str, Any]:
    return {
        "player": name,
        "before": before,
        "change": change,
        "after": after,
        "sequence": player.sequence + 1,
    }


def _carry(player: Player, after: State, system: RatingSystem, now: int) -> tuple[int, State, bool, bool]:
    read, last_game = player.sequence, player.state.last_game
    player.state, player.sequence = after, read + 1
    return read, after, system.listed(after), last_game // DAY_MS != now // DAY_MS


def _event(
    head: dict[str, Any],
    system: RatingSystem,
    rules: str,
    finished_at: int,
    rated_at: int,
    *,
    late: bool,
    players: list[dict[str, Any]],
) -> bytes:
    """A RatingUpdated message, built by hand because it is made for every match."""
    return orjson.dumps(
        {
            "version": VERSION,
            **head,
            "system": system.name,
            "rules": rules,
            "finished_at": finished_at,
            "rated_at": rated_at,
            "late": late,
            "players": players,
        }
    )
