"""Decides a batch of messages: pure rules from a snapshot to commits.

Messages are taken in the order of the stream and the players' states are carried forward within the
batch. A message is rated only when it is next on the line of each of its players; otherwise it waits, and
so do those behind it. The oldest message of a ladder never waits, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from match_ratings import MatchFinished, MatchVoided, Reason, TournamentFinished
from match_ratings_worker.rating import InvalidGame
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import IMPORTED, NO_RECEIPT, Receipt
from match_ratings_worker.time_units import HOUR_MS

from .message_batch import BatchSnapshot, Commit, InboxEntry, LadderRules, PlayerState
from .pay_prizes import pay_prizes
from .rate_match import rate_match
from .validate_message import Problem
from .void_match import void_match

#: A receipt outlives the horizon by this much, so that no message can slip in between.
_RECEIPT_SLACK_MS = HOUR_MS


def decide(
    entries: Iterable[InboxEntry],
    snapshot: BatchSnapshot,
    rules: LadderRules,
    failed: dict[str, Exception] | None = None,
) -> Iterator[Commit]:
    """Yield the commits for those of `entries` (in stream order) whose turn it is; the others wait.

    A generator, so that the first commits can be sent to Redis while the next are computed.

    A rating that raises costs its own message an attempt and nothing else: it is put into `failed` and
    keeps its place. The players in `snapshot` are carried forward and are stale afterwards.
    """
    for entry in entries:
        players = [snapshot.players[name] for name in entry.players]
        if not all(player.is_next(entry.id) for player in players):
            continue
        try:
            commit = _already_settled(entry, snapshot.receipts) or _dispatch(entry, players, snapshot, rules)
        except InvalidGame as error:
            commit = Commit("dead", entry, problem=Problem(Reason.INVALID, str(error)))
        except Exception as error:  # whatever a system or a stored value does, the batch goes on
            if failed is not None:
                failed[entry.id] = error
            continue
        if commit is None:
            continue
        for player, change in zip_longest(players, commit.changes):
            player.advance(change, commit)
        if commit.action not in ("duplicate", "dead"):
            snapshot.receipts[entry.receipt] = Receipt.in_batch(entry.digest)
        yield commit


def _already_settled(entry: InboxEntry, receipts: dict[str, Receipt]) -> Commit | None:
    """The commit of a message whose match has had its effect; None when it has not."""
    receipt = receipts.get(entry.receipt, NO_RECEIPT)
    if not receipt.is_settled:
        return None
    if receipt.rest == IMPORTED:  # its result is in the imported ratings
        entry.digest = IMPORTED
    if receipt.rest == entry.digest:
        return Commit("duplicate", entry)
    message = entry.message
    name = "tournament_id" if isinstance(message, TournamentFinished) else "match_id"
    value = message.effect_id if message else ""
    detail = f"{name}: {quote(value)} was received before with other content; it is not rated again"
    return Commit("dead", entry, problem=Problem(Reason.CONFLICT, detail))


def _dispatch(
    entry: InboxEntry, players: list[PlayerState], snapshot: BatchSnapshot, rules: LadderRules
) -> Commit | None:
    """The commit of a message whose turn it is; None while an earlier one with its id comes first."""
    if (snapshot.receipts.get(entry.receipt, NO_RECEIPT).next_id or entry.id) != entry.id:
        return None
    message = entry.message
    if message is None:
        return None
    for name, player in zip(entry.players, players, strict=True):
        if player.fault is not None:
            fault = f"the stored state of player {quote(name)} cannot be read: {player.fault}"
            raise RuntimeError(fault)
    ttl = max(message.finished_at - snapshot.now, 0) + rules.horizon_ms + _RECEIPT_SLACK_MS
    if isinstance(message, MatchFinished):
        return rate_match(entry, message, players, snapshot, rules, ttl)
    if isinstance(message, MatchVoided):
        return void_match(entry, message, players, snapshot, rules)
    return pay_prizes(entry, message, players, snapshot, rules, ttl)
