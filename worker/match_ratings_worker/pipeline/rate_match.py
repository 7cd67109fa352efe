"""Rates a finished match: both players' changes and the event."""

from __future__ import annotations

from typing import Any

from match_ratings import Cause, MatchFinished, Mode
from match_ratings_worker.rating import Game, Outcome, State
from match_ratings_worker.safe_text import quote
from match_ratings_worker.time_units import WINDOW_MS

from .build_event import figured_part, rating_event
from .close_period import change_to, open_state, period_cutoff
from .message_batch import BatchSnapshot, Commit, InboxEntry, LadderRules, PlayerState


def rate_match(
    entry: InboxEntry,
    message: MatchFinished,
    players: list[PlayerState],
    snapshot: BatchSnapshot,
    rules: LadderRules,
    ttl: int,
) -> Commit:
    """Rate a ranked match, after closing the periods that ended before it; others are not rated.

    `ttl` is how long the receipt is kept, in ms. Raises InvalidGame when the match makes no sense in the
    system, RuntimeError when a player's stored games cannot be read.
    """
    if message.mode is not Mode.RANKED:
        return Commit("not-rated", entry, ttl=ttl)
    first, second = players
    names, finished_at, now, system = entry.players, message.finished_at, snapshot.now, rules.system
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
    cutoff = period_cutoff(entry, system, finished_at)
    opened = [
        open_state(player, name, rules, cutoff, now) for player, name in zip(players, names, strict=True)
    ]
    events = [each.closing for each in opened if each.closing is not None]
    outcome = system.rate(opened[0].state, opened[1].state, game)
    late = finished_at < first.state.last_game or finished_at < second.state.last_game
    changes, parts = [], []
    for player, name, meets, side, score, games in zip(
        players, names, opened, outcome.sides, scores, recent, strict=True
    ):
        before = meets.state
        part = figured_part(name, meets.sequence, before.rating, side)
        part["score"], part["recent_games"] = score, games
        parts.append(part)
        after = State(side.rating, before.games + 1, max(before.last_game, finished_at), side.extra)
        changes.append(change_to(after, player, meets, system, now, written=meets.sequence))
    head = _head(message, outcome, late=late)
    events.append(rating_event(head, rules, outcome.rules, now, parts))
    return Commit(
        "rated", entry, ttl=ttl, events=events, game=(message.match_id, finished_at), changes=changes
    )


def _head(message: MatchFinished, outcome: Outcome, *, late: bool) -> dict[str, Any]:
    head: dict[str, Any] = {
        "cause": Cause.MATCH,
        "match_id": message.match_id,
        "cube": message.cube,
        "finished_at": message.finished_at,
        "late": late,
    }
    if outcome.coefficient is not None:
        head["coefficient"] = outcome.coefficient
    figures = outcome.figures
    if message.length is not None:
        figures = {**figures, "length": message.length}
    if figures:
        head["figures"] = figures
    return head


def _recent_games(player: PlayerState, name: str, stored: int | str, finished_at: int) -> int:
    """Ranked games in the window before a game: the stored ones and those rated in this batch."""
    if isinstance(stored, str):
        fault = f"the stored games of player {quote(name)} cannot be read: {stored}"
        raise RuntimeError(fault)
    if not player.games_in_batch:
        return stored
    opens = finished_at - WINDOW_MS
    return stored + sum(opens <= time < finished_at for time in player.games_in_batch)
