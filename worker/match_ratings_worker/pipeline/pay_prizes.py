"""Pays the rating points of a public tournament to its podium."""

from __future__ import annotations

from match_ratings import Cause, TournamentFinished

from .build_event import player_part, rating_event
from .close_period import change_to, open_state, period_cutoff
from .message_batch import BatchSnapshot, Commit, InboxEntry, LadderRules, PlayerState


def pay_prizes(
    entry: InboxEntry,
    message: TournamentFinished,
    players: list[PlayerState],
    snapshot: BatchSnapshot,
    rules: LadderRules,
    ttl: int,
) -> Commit:
    """Pay the prizes of a public tournament; a private one is not rated.

    `ttl` is how long the receipt is kept, in ms.
    """
    if not message.public:
        return Commit("not-rated", entry, ttl=ttl)
    system, now, cutoff = rules.system, snapshot.now, period_cutoff(entry, rules.system)
    changes, parts, events = [], [], []
    for name, player, points in zip(entry.players, players, message.prizes, strict=True):
        opened = open_state(player, name, rules, cutoff, now)
        if opened.closing is not None:
            events.append(opened.closing)
        before, after = opened.state, system.award(opened.state, points)
        change = after.rating - before.rating
        parts.append(player_part(name, opened.sequence, before.rating, after.rating, change))
        changes.append(change_to(after, player, opened, system, now, written=opened.sequence))
    head = {"cause": Cause.PRIZE, "tournament_id": message.tournament_id, "finished_at": message.finished_at}
    events.append(rating_event(head, rules, system.rules_at(message.finished_at), now, parts))
    return Commit("prize", entry, ttl=ttl, events=events, changes=changes)
