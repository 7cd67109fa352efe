"""Turns a claimed message into an entry of the batch: with a validated message, or with a problem."""

from __future__ import annotations

from match_ratings import Reason
from match_ratings_worker.safe_text import quote

from .message_batch import InboxEntry, LadderRules
from .parse_claim_reply import ClaimedEntry
from .validate_message import Problem, digest, misread_by_parsers, read_message, too_large


def accept_claimed(claimed: ClaimedEntry, rules: LadderRules, now: int, most_attempts: int) -> InboxEntry:
    """The entry, with its message and digest or with its problem; `now` is the server's time in ms."""
    entry = claimed.entry
    if entry.attempts > most_attempts:
        text = f"it was claimed {entry.attempts - 1} times and no worker finished it"
        entry.problem = Problem(Reason.FAILED, text)
    elif not claimed.kind and claimed.effect_id:
        text = f"a key of its match or players holds something else: {quote(claimed.effect_id)}"
        entry.problem = Problem(Reason.FAILED, text)
    elif claimed.raw is None and claimed.size:
        entry.problem = too_large(claimed.size)
    else:
        read = read_message(
            claimed.raw,
            ladder=rules.ladder,
            kind=claimed.kind,
            now=now,
            horizon=rules.horizon_ms,
            force_late=entry.replay is not None and entry.replay.force_late,
        )
        if isinstance(read, Problem):
            entry.problem = read
        elif read.player_ids != entry.players or read.effect_id != claimed.effect_id:
            entry.problem = misread_by_parsers()
        else:
            entry.message, entry.digest = read, digest(read, rules.system)
    return entry
