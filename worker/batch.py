"""Decides what becomes of a batch of messages: pure rules from a snapshot to commits.

Messages are taken in the order of the stream and the players' states are carried forward within the
batch. A message goes only when it is next on the line of each of its players; otherwise it waits, and
so does what stands behind it. The oldest message of a ladder never waits, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import orjson

from contracts import Cause, MatchFinished, MatchVoided, Mode, RatingUpdated, Reason, TournamentFinished
from contracts.messages import VERSION
from worker.rating import Game, InvalidGame, Number, RatingSystem, State
from worker.validation import Message, Problem, quote

__all__ = [
    "DAY_MS",
    "IMPORTED",
    "WINDOW_MS",
    "Change",
    "Commit",
    "Entry",
    "Player",
    "Replay",
    "Snapshot",
    "close_period",
    "decide",
]

DAY_MS = 86_400_000
#: The window in which a player's ranked games are counted: 7 x 24 h.
WINDOW_MS = 7 * DAY_MS
#: What a receipt has instead of a digest for a match that another rater had rated before the import.
IMPORTED = "imported"
#: How long it is kept that a match was taken back: for good, since it can be old when it is.
_VOID_RECEIPT_MS = 100 * 366 * DAY_MS
#: A receipt outlives the horizon by this much, so that no message can slip in between, in ms.
_RECEIPT_SLACK_MS = 3_600_000

Verb = Literal["rate", "prize", "void", "aside", "again", "dead", "close"]


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
    #: Receipt key -> its text, "" when there is none.
    receipts: dict[str, str]
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


@dataclass(slots=True)
class Commit:
    """What the commit script is to do with one message, and for the log what it means."""

    verb: Verb
    entry: Entry
    #: rate, aside: how long the receipt is kept, in ms.
    ttl: int = 0
    #: rate, prize, void, close: the events, JSON; the last is the message's own.
    events: list[bytes] = field(default_factory=list)
    #: rate: the match id and finish time in ms of the game that enters the window; the time is "" when
    #: the game is taken out, both are "" when it is none.
    game: tuple[str, int | str] = ("", "")
    #: rate, prize, void, close: what becomes of each player.
    changes: list[Change] = field(default_factory=list)
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
        if commit.verb not in ("again", "dead"):
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
    if settled == IMPORTED:  # its result is in the ratings that were brought along
        entry.digest = IMPORTED
    if settled == entry.digest:
        return Commit("again", entry)
    name, value = _effect(entry.message)
    detail = f"{name}: {quote(value)} was received before with other content; it is not rated again"
    return Commit("dead", entry, problem=Problem(Reason.CONFLICT, detail))


def _effect(message: Message | None) -> tuple[str, str]:
    """The name and the value of the id that a message's effect hangs on."""
    if isinstance(message, TournamentFinished):
        return "tournament_id", message.tournament_id
    return "match_id", message.match_id if message is not None else ""


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
    if isinstance(message, MatchVoided):
        return _void(entry, message, players, snapshot, ladder, system)
    return _prizes(entry, message, players, snapshot, ladder, system, ttl)


def _prizes(
    entry: Entry,
    message: TournamentFinished,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
    ttl: int,
) -> Commit:
    if not message.public:
        return Commit("aside", entry, ttl=ttl)
    changes, parts, events = [], [], []
    for name, player, points in zip(entry.players, players, message.prizes, strict=True):
        before, closing = _closed(player, name, ladder, system, _reached(entry, system), snapshot.now)
        passed = 0 if closing is None else 1
        events += [closing] if closing is not None else []
        after = system.award(before, points)
        change = after.rating - before.rating
        parts.append(_part(name, player.sequence + passed, before.rating, change, after.rating))
        changes.append(_carry(player, after, system, snapshot.now, passed + 1))
    head = {"cause": Cause.PRIZE, "tournament_id": message.tournament_id, "ladder": ladder}
    rules = system.rules_at(message.finished_at)
    event = _event(head, system, rules, message.finished_at, snapshot.now, late=False, players=parts)
    return Commit("prize", entry, ttl=ttl, events=[*events, event], changes=changes)


def _void(
    entry: Entry,
    message: MatchVoided,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
) -> Commit | None:
    key = snapshot.match_receipts[entry.id]
    receipt = snapshot.receipts.get(key, "")
    if receipt.startswith("* "):
        return None  # rated in this very batch: its event is there next time
    if receipt.startswith(("? ", "- ")) or entry.id not in snapshot.events:
        why = "was not rated by the rules" if receipt.startswith("- ") else "is not known"
        if receipt == f"- {IMPORTED}":
            why = "was rated before the ratings were imported"
        raise InvalidGame(f"match_id: {quote(message.match_id)} {why}; there is nothing to take back")
    voided = RatingUpdated.model_validate_json(snapshot.events[entry.id])
    if voided.cause is not Cause.MATCH or voided.match_id != message.match_id:
        raise InvalidGame(f"ledger_id: {quote(message.ledger_id)} is not allowed; it is another event's")
    by_name = {part.player: part for part in voided.players}
    if by_name.keys() != set(entry.players):
        played = quote([part.player for part in voided.players], 300)
        raise InvalidGame(
            f"players: {quote(message.players, 300)} is not allowed; the match was between {played}"
        )
    changes, parts, events = [], [], []
    for name, player in zip(entry.players, players, strict=True):
        before, closing = _closed(player, name, ladder, system, _reached(entry, system), snapshot.now)
        passed = 0 if closing is None else 1
        events += [closing] if closing is not None else []
        after = system.void(before, by_name[name])
        change = after.rating - before.rating
        part = _part(name, player.sequence + passed, before.rating, change, after.rating)
        own = zip(system.fields, before.extra, after.extra, strict=True)
        if figures := {f"{field}_after": value for field, old, value in own if value != old}:
            part["figures"] = figures
        parts.append(part)
        after = after._replace(games=max(before.games - 1, 0))
        changes.append(_carry(player, after, system, snapshot.now, passed + 1))
        # The games that were counted when this batch was read are no longer those of its later matches.
        player.line = player.line[: player.passed]
    head = {"cause": Cause.VOID, "match_id": message.match_id, "ladder": ladder, "why": message.why}
    rules, finished_at = voided.rules, voided.finished_at
    event = _event(head, system, rules, finished_at, snapshot.now, late=False, players=parts)
    game = (message.match_id, "")
    return Commit("void", entry, ttl=_VOID_RECEIPT_MS, events=[*events, event], game=game, changes=changes)


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
    closed = [
        _closed(player, name, ladder, system, _reached(entry, system, finished_at), now)
        for player, name in zip(players, names, strict=True)
    ]
    events = [event for _, event in closed if event is not None]
    outcome = system.rate(closed[0][0], closed[1][0], game)
    late = finished_at < first.state.last_game or finished_at < second.state.last_game
    changes, parts = [], []
    for player, name, (before, closing), side, score, games in zip(
        players, names, closed, outcome.sides, scores, recent, strict=True
    ):
        passed = 0 if closing is None else 1
        part = _part(name, player.sequence + passed, before.rating, side.change, side.rating)
        part["score"], part["expected"], part["recent_games"] = score, side.expected, games
        if side.k is not None:
            part["k"] = side.k
        if side.figures:
            part["figures"] = side.figures
        parts.append(part)
        after = State(side.rating, before.games + 1, max(before.last_game, finished_at), side.extra)
        player.fresh.append(finished_at)
        changes.append(_carry(player, after, system, now, passed + 1))
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
    game_id = (message.match_id, finished_at)
    return Commit("rate", entry, ttl=ttl, events=[*events, event], game=game_id, changes=changes)


def _recent_games(player: Player, name: str, stored: int | str, finished_at: int) -> int:
    """Ranked games in the 7 days before a game: the stored ones and those of this batch."""
    if isinstance(stored, str):
        fault = f"the stored games of player {quote(name)} cannot be read: {stored}"
        raise RuntimeError(fault)
    if not player.fresh:
        return stored
    opens = finished_at - WINDOW_MS
    return stored + sum(opens <= time < finished_at for time in player.fresh)


def close_period(
    player: Player, name: str, *, ladder: str, system: RatingSystem, until: int, now: int
) -> Commit | None:
    """Ends a player's rating period when it is over by `until` (ms); None when there is none to end."""
    state, event = _closed(player, name, ladder, system, until, now)
    if event is None:
        return None
    change = _carry(player, state, system, now)
    return Commit("close", Entry("", 0, (name,)), events=[event], changes=[change])


def _reached(entry: Entry, system: RatingSystem, finished_at: int = 0) -> int:
    """The time in ms up to which its players' rating periods are over when a message is taken.

    A game ends the periods before it, and every message those whose grace had passed when it came in. So
    the stream alone decides which games a period has, whenever the job that closes periods runs: it
    leaves a period open while a message waits that came in before the end of the grace.
    """
    grace = system.period_grace
    return finished_at if grace is None else max(finished_at, int(entry.id.partition("-")[0]) - grace)


def _closed(
    player: Player, name: str, ladder: str, system: RatingSystem, at: int, now: int
) -> tuple[State, bytes | None]:
    """The state in which a player meets a game at a time, and the event of the period that ended before."""
    state = player.state
    closes_at = system.closes_at(state)
    if closes_at is None or at < closes_at:
        return state, None
    side = system.close(state)
    part = _part(name, player.sequence, state.rating, side.change, side.rating)
    part["expected"] = side.expected
    if side.k is not None:
        part["k"] = side.k
    if side.figures:
        part["figures"] = side.figures
    head = {"cause": Cause.PERIOD, "ladder": ladder}
    event = _event(head, system, system.rules_at(closes_at - 1), closes_at, now, late=False, players=[part])
    return state._replace(rating=side.rating, extra=side.extra), event


def _part(name: str, sequence: int, before: Number, change: Number, after: Number) -> dict[str, Any]:
    return {
        "player": name,
        "before": before,
        "change": change,
        "after": after,
        "sequence": sequence + 1,
    }


def _carry(player: Player, after: State, system: RatingSystem, now: int, events: int = 1) -> Change:
    before, read = player.state, player.sequence
    player.state, player.sequence = after, read + events
    closed, closes = system.closes_at(before), system.closes_at(after)
    return Change(
        read,
        read + events,
        after,
        system.listed(after),
        before.last_game // DAY_MS != now // DAY_MS,
        "" if closed == closes else closes or 0,
    )


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
