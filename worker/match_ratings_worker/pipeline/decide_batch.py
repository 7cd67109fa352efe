"""Decides what becomes of a batch of messages: pure rules from a snapshot to commits.

Messages are taken in the order of the stream and the players' states are carried forward within the
batch. A message goes only when it is next on the line of each of its players; otherwise it waits, and
so does what stands behind it. The oldest message of a ladder never waits, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from match_ratings import MatchFinished, MatchVoided, Reason, TournamentFinished
from match_ratings_worker.pipeline.batch import Commit, Entry, Player, Snapshot
from match_ratings_worker.pipeline.message_effects import pay_prizes, rate_match, void_match
from match_ratings_worker.pipeline.validate_message import Problem
from match_ratings_worker.rating import InvalidGame, RatingSystem
from match_ratings_worker.storage.receipts import IMPORTED, NO_RECEIPT, Receipt
from match_ratings_worker.text import quote

__all__ = ["decide"]

#: A receipt outlives the horizon by this much, so that no message can slip in between, in ms.
_RECEIPT_SLACK_MS = 3_600_000


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
        if commit.action not in ("duplicate", "dead"):
            snapshot.receipts[entry.receipt] = Receipt.in_batch(entry.digest)
        yield commit


def _is_next(entry_id: str, players: list[Player]) -> bool:
    """Whether a message is the next on the line of each of its players."""
    for player in players:
        if player.passed >= len(player.line) or player.line[player.passed] != entry_id:
            return False
    return True


def _settled(entry: Entry, receipts: dict[str, Receipt]) -> Commit | None:
    """What to do with a message whose match has had its effect; None when it has not."""
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


def _rated(
    entry: Entry, players: list[Player], snapshot: Snapshot, ladder: str, system: RatingSystem, horizon: int
) -> Commit | None:
    if (snapshot.receipts.get(entry.receipt, NO_RECEIPT).next_id or entry.id) != entry.id:
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
        return rate_match(entry, message, players, snapshot, ladder, system, ttl)
    if isinstance(message, MatchVoided):
        return void_match(entry, message, players, snapshot, ladder, system)
    return pay_prizes(entry, message, players, snapshot, ladder, system, ttl)
