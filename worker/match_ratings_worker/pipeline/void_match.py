"""Voids a rated match: undoes both players' changes by exactly that match."""

from __future__ import annotations

from typing import Any

from match_ratings import Cause, MatchVoided, RatingUpdated
from match_ratings_worker.rating import InvalidGame, RatingSystem, State
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import NO_RECEIPT
from match_ratings_worker.time_units import DAY_MS

from .build_event import player_part, rating_event
from .close_period import change_to, open_state, period_cutoff
from .message_batch import BatchSnapshot, Commit, InboxEntry, LadderRules, PlayerState

#: How long the receipt of a void is kept, in ms: for good, since the match may be old already.
_VOID_RECEIPT_MS = 100 * 366 * DAY_MS


def void_match(
    entry: InboxEntry,
    message: MatchVoided,
    players: list[PlayerState],
    snapshot: BatchSnapshot,
    rules: LadderRules,
) -> Commit | None:
    """Undo the changes by a rated match; None while the match's event is not stored yet.

    Raises InvalidGame when there is nothing to undo, or the match was between others.
    """
    voided = _voided_event(entry, message, snapshot)
    if voided is None:
        return None
    by_name = {part.player: part for part in voided.players}
    system, now, cutoff = rules.system, snapshot.now, period_cutoff(entry, rules.system)
    changes, parts, events = [], [], []
    for name, player in zip(entry.players, players, strict=True):
        opened = open_state(player, name, rules, cutoff, now)
        if opened.closing is not None:
            events.append(opened.closing)
        before = opened.state
        after = system.void(before, by_name[name])
        parts.append(_part(name, opened.sequence, before, after, system))
        after = after._replace(games=max(before.games - 1, 0))
        changes.append(change_to(after, player, opened, system, now, written=opened.sequence))
    head = {
        "cause": Cause.VOID,
        "match_id": message.match_id,
        "why": message.why,
        "finished_at": voided.finished_at,
    }
    events.append(rating_event(head, rules, voided.rules, now, parts))
    game = (message.match_id, "")
    return Commit("void", entry, ttl=_VOID_RECEIPT_MS, events=events, game=game, changes=changes)


def _voided_event(entry: InboxEntry, message: MatchVoided, snapshot: BatchSnapshot) -> RatingUpdated | None:
    """The event of the match; None when it was rated in this very batch. Raises InvalidGame."""
    receipt = snapshot.receipts.get(snapshot.match_receipts[entry.id], NO_RECEIPT)
    if receipt.is_in_batch:
        return None
    if receipt.mark == "?" or receipt.is_not_rated or entry.id not in snapshot.events:
        why = "was not rated by the rules" if receipt.is_not_rated else "is not known"
        if receipt.is_imported:
            why = "was rated before the ratings were imported"
        raise InvalidGame(f"match_id: {quote(message.match_id)} {why}; there is nothing to take back")
    voided = RatingUpdated.model_validate_json(snapshot.events[entry.id])
    if voided.cause is not Cause.MATCH or voided.match_id != message.match_id:
        raise InvalidGame(f"ledger_id: {quote(message.ledger_id)} is not allowed; it is another event's")
    if {part.player for part in voided.players} != set(entry.players):
        played = quote([part.player for part in voided.players], 300)
        raise InvalidGame(
            f"players: {quote(message.players, 300)} is not allowed; the match was between {played}"
        )
    return voided


def _part(name: str, sequence: int, before: State, after: State, system: RatingSystem) -> dict[str, Any]:
    part = player_part(name, sequence, before.rating, after.rating, after.rating - before.rating)
    own = zip(system.state_fields, before.extra, after.extra, strict=True)
    if figures := {f"{field}_after": value for field, old, value in own if value != old}:
        part["figures"] = figures
    return part
