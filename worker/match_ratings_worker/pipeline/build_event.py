"""Builds RatingUpdated events as JSON, by hand, because one is made for every match."""

from __future__ import annotations

from typing import Any

import orjson

from match_ratings.messages import VERSION
from match_ratings_worker.rating import Number, Side

from .message_batch import LadderRules


def player_part(name: str, sequence: int, before: Number, after: Number, change: Number) -> dict[str, Any]:
    """A player's part of an event; `sequence` is that of this change."""
    return {"player": name, "before": before, "change": change, "after": after, "sequence": sequence}


def figured_part(name: str, sequence: int, before: Number, side: Side) -> dict[str, Any]:
    """A player's part of an event with the figures of the system that made it."""
    part = player_part(name, sequence, before, side.rating, side.change)
    part["expected"] = side.expected
    if side.k is not None:
        part["k"] = side.k
    if side.figures:
        part["figures"] = side.figures
    return part


def rating_event(
    head: dict[str, Any], rules: LadderRules, version: str, now: int, players: list[dict[str, Any]]
) -> bytes:
    """An event; `head` has its cause, ids and finished_at, `version` is that of the system's rules.

    `now` is the server's time in ms, at which the event is rated.
    """
    return orjson.dumps(
        {
            "version": VERSION,
            "ladder": rules.ladder,
            "late": False,
            **head,
            "system": rules.system.name,
            "rules": version,
            "rated_at": now,
            "players": players,
        }
    )
