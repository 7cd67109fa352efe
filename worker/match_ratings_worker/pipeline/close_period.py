"""Closes a player's rating period: on its own, or before a message that comes after its end."""

from __future__ import annotations

from typing import NamedTuple

from match_ratings import Cause
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.storage import stream_id_ms
from match_ratings_worker.time_units import DAY_MS

from .build_event import figured_part, rating_event
from .message_batch import Commit, InboxEntry, LadderRules, PlayerState, StateChange


class OpenedState(NamedTuple):
    """A player's state as a message meets it, after the rating period that ended before."""

    state: State
    #: The number of the player's next change.
    sequence: int
    #: End of the period that the stored state has open, in ms; None when none is.
    stored_closes_at: int | None
    #: The event that closes this period; None when it stays open.
    closing: bytes | None = None


def period_cutoff(entry: InboxEntry, system: RatingSystem, finished_at: int = 0) -> int:
    """The time in ms up to which rating periods are over when a message is rated.

    A game (`finished_at` in ms) ends the periods before it, and every message those whose grace had passed
    when it arrived. So the stream alone decides which games a period has, whenever the job that closes
    periods runs: it leaves a period open while a message waits that arrived before the end of the grace.
    """
    grace = system.period_grace
    return finished_at if grace is None else max(finished_at, stream_id_ms(entry.id) - grace)


def open_state(player: PlayerState, name: str, rules: LadderRules, cutoff: int, now: int) -> OpenedState:
    """The player's state after closing the period that is over by `cutoff` (ms); `now` in ms."""
    state, sequence, system = player.state, player.sequence + 1, rules.system
    closes_at = system.closes_at(state)
    if closes_at is None or cutoff < closes_at:
        return OpenedState(state, sequence, closes_at)
    side = system.close(state)
    head = {"cause": Cause.PERIOD, "finished_at": closes_at}
    part = figured_part(name, sequence, state.rating, side)
    event = rating_event(head, rules, system.rules_at(closes_at - 1), now, [part])
    closed = state._replace(rating=side.rating, extra=side.extra)
    return OpenedState(closed, sequence + 1, closes_at, event)


def change_to(
    after: State, player: PlayerState, opened: OpenedState, system: RatingSystem, now: int, written: int
) -> StateChange:
    """The change from the stored state to `after`; `written` is the player's new sequence, `now` in ms."""
    closes_at = system.closes_at(after)
    return StateChange(
        read=player.sequence,
        written=written,
        state=after,
        listed=system.on_leaderboard(after),
        tidy=player.state.last_game // DAY_MS != now // DAY_MS,
        closes_at="" if closes_at == opened.stored_closes_at else closes_at or 0,
    )


def close_period(player: PlayerState, name: str, rules: LadderRules, until: int, now: int) -> Commit | None:
    """Close a player's period if it is over by `until` (ms); None if there is none to close."""
    opened = open_state(player, name, rules, until, now)
    if opened.closing is None:
        return None
    change = change_to(opened.state, player, opened, rules.system, now, written=opened.sequence - 1)
    return Commit("closed", InboxEntry("", 0, (name,)), events=[opened.closing], changes=[change])
