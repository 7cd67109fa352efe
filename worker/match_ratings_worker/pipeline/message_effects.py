"""What a message changes once its turn has come: matches, prizes, voids, and the end of a rating period.

Pure: from the players as read to new states and the events that tell of them.
"""

from __future__ import annotations

from typing import Any

import orjson

from match_ratings import Cause, MatchFinished, MatchVoided, Mode, RatingUpdated, TournamentFinished
from match_ratings.messages import VERSION
from match_ratings_worker.pipeline.batch import (
    Change,
    Commit,
    Entry,
    Player,
    Snapshot,
)
from match_ratings_worker.rating import Game, InvalidGame, Number, RatingSystem, State
from match_ratings_worker.storage.receipts import NO_RECEIPT
from match_ratings_worker.storage.stream_ids import stream_id_ms
from match_ratings_worker.text import quote
from match_ratings_worker.units import DAY_MS, WINDOW_MS

__all__ = ["close_period", "rate_match", "pay_prizes", "void_match"]

#: How long it is kept that a match was taken back: for good, since it can be old when it is.
_VOID_RECEIPT_MS = 100 * 366 * DAY_MS


def pay_prizes(
    entry: Entry,
    message: TournamentFinished,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
    ttl: int,
) -> Commit:
    """The prizes of a public tournament for its podium; a private one is set aside."""
    if not message.public:
        return Commit("not-rated", entry, ttl=ttl)
    changes, parts, events = [], [], []
    for name, player, points in zip(entry.players, players, message.prizes, strict=True):
        before, closing = _closed(player, name, ladder, system, _period_cutoff(entry, system), snapshot.now)
        passed = 0 if closing is None else 1
        events += [closing] if closing is not None else []
        after = system.award(before, points)
        change = after.rating - before.rating
        parts.append(_part(name, player.sequence + passed, before.rating, change, after.rating))
        changes.append(_advance(player, after, system, snapshot.now, passed + 1))
    head = {"cause": Cause.PRIZE, "tournament_id": message.tournament_id, "ladder": ladder}
    rules = system.rules_at(message.finished_at)
    event = _event(head, system, rules, message.finished_at, snapshot.now, late=False, players=parts)
    return Commit("prize", entry, ttl=ttl, events=[*events, event], changes=changes)


def void_match(
    entry: Entry,
    message: MatchVoided,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
) -> Commit | None:
    """A rated match's changes taken back from both players; None when its event is not there yet.

    Raises InvalidGame when there is nothing to take back, or the match was between others.
    """
    key = snapshot.match_receipts[entry.id]
    receipt = snapshot.receipts.get(key, NO_RECEIPT)
    if receipt.is_in_batch:
        return None  # rated in this very batch: its event is there next time
    if receipt.mark == "?" or receipt.is_not_rated or entry.id not in snapshot.events:
        why = "was not rated by the rules" if receipt.is_not_rated else "is not known"
        if receipt.is_imported:
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
        before, closing = _closed(player, name, ladder, system, _period_cutoff(entry, system), snapshot.now)
        passed = 0 if closing is None else 1
        events += [closing] if closing is not None else []
        after = system.void(before, by_name[name])
        change = after.rating - before.rating
        part = _part(name, player.sequence + passed, before.rating, change, after.rating)
        own = zip(system.state_fields, before.extra, after.extra, strict=True)
        if figures := {f"{field}_after": value for field, old, value in own if value != old}:
            part["figures"] = figures
        parts.append(part)
        after = after._replace(games=max(before.games - 1, 0))
        changes.append(_advance(player, after, system, snapshot.now, passed + 1))
        # The games that were counted when this batch was read are no longer those of its later matches.
        player.line = player.line[: player.passed]
    head = {"cause": Cause.VOID, "match_id": message.match_id, "ladder": ladder, "why": message.why}
    rules, finished_at = voided.rules, voided.finished_at
    event = _event(head, system, rules, finished_at, snapshot.now, late=False, players=parts)
    game = (message.match_id, "")
    return Commit("void", entry, ttl=_VOID_RECEIPT_MS, events=[*events, event], game=game, changes=changes)


def rate_match(
    entry: Entry,
    message: MatchFinished,
    players: list[Player],
    snapshot: Snapshot,
    ladder: str,
    system: RatingSystem,
    ttl: int,
) -> Commit:
    """Both changes of a ranked match, after the rating periods that ended before it; others are set aside.

    Raises InvalidGame when the match makes no sense in the system, RuntimeError when what is stored of a
    player cannot be read.
    """
    if message.mode is not Mode.RANKED:
        return Commit("not-rated", entry, ttl=ttl)
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
    if not system.accepts(game):
        return Commit("not-rated", entry, ttl=ttl)
    closed = [
        _closed(player, name, ladder, system, _period_cutoff(entry, system, finished_at), now)
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
        changes.append(_advance(player, after, system, now, passed + 1))
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
    return Commit("rated", entry, ttl=ttl, events=[*events, event], game=game_id, changes=changes)


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
    change = _advance(player, state, system, now)
    return Commit("closed", Entry("", 0, (name,)), events=[event], changes=[change])


def _period_cutoff(entry: Entry, system: RatingSystem, finished_at: int = 0) -> int:
    """The time in ms up to which its players' rating periods are over when a message is taken.

    A game ends the periods before it, and every message those whose grace had passed when it came in. So
    the stream alone decides which games a period has, whenever the job that closes periods runs: it
    leaves a period open while a message waits that came in before the end of the grace.
    """
    grace = system.period_grace
    return finished_at if grace is None else max(finished_at, stream_id_ms(entry.id) - grace)


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


def _advance(player: Player, after: State, system: RatingSystem, now: int, events: int = 1) -> Change:
    before, read = player.state, player.sequence
    player.state, player.sequence = after, read + events
    closed, closes = system.closes_at(before), system.closes_at(after)
    return Change(
        read,
        read + events,
        after,
        system.on_leaderboard(after),
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
