"""Encodes commits as the arguments of commit_batch.lua, in the order of its header."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from match_ratings_worker.storage import stream_id_ms
from match_ratings_worker.time_units import WINDOW_MS

from .message_batch import Commit


def commit_arguments(commits: Iterable[Commit], now: int, keep_games_ms: int) -> list[Any]:
    """The arguments for each message; `now` is the server's time in ms."""
    args: list[Any] = []
    keep_from = now - keep_games_ms
    for commit in commits:
        entry, action = commit.entry, commit.action
        replay = entry.replay.tag if entry.replay else ""
        receipt: Any = entry.receipt
        players: Sequence[Any] = entry.players
        if action == "dead":  # also ids whose bytes are not UTF-8, as the claim had them
            receipt, *players = [text.encode("utf-8", "surrogateescape") for text in (receipt, *players)]
        args += (action, entry.id, replay, receipt, len(players), *players)
        if action in ("rated", "prize", "void"):
            args += (1 if entry.exclusive else 0, entry.digest, commit.ttl, *commit.game)
            args += (len(commit.events), *commit.events)
            _add_changes(args, commit, _keep_from(commit, keep_from))
        elif action == "closed":
            args += commit.events
            _add_changes(args, commit, keep_from)
        elif action == "not-rated":
            args += (entry.digest, commit.ttl)
        elif action == "duplicate":
            args.append(entry.digest)
        else:
            args += _dead_letter(commit, now)
    return args


def _add_changes(args: list[Any], commit: Commit, keep_from: int) -> None:
    for change in commit.changes:
        state, rating = change.state, repr(change.state.rating)
        args += (change.read, change.written, rating if change.listed else "")
        args += (keep_from if change.tidy else "", change.closes_at, rating, state.games, state.last_game)
        if state.extra:
            args += [repr(value) for value in state.extra]


def _dead_letter(commit: Commit, now: int) -> tuple[Any, ...]:
    assert commit.problem is not None
    (reason, detail), entry, origin = commit.problem, commit.entry, commit.entry.replay
    if origin is None:
        return (reason.value, detail, entry.attempts, stream_id_ms(entry.id), now, "")
    attempts = entry.attempts + origin.attempts
    return (reason.value, detail, attempts, origin.first_seen, now, origin.history)


def _keep_from(commit: Commit, keep_from: int) -> int:
    """The finish, in ms, of the oldest game that a commit leaves in the windows."""
    origin, finished_at = commit.entry.replay, commit.game[1]
    if origin is None or not origin.force_late or not isinstance(finished_at, int):
        return keep_from
    return min(keep_from, finished_at - WINDOW_MS)  # the next late match may need the same games
