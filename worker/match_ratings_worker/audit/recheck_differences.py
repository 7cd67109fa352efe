"""Collects events and games in a second pass over the ledger, as memory does not hold them all. Pure."""

from __future__ import annotations

from collections.abc import Collection

import orjson
from pydantic import ValidationError

from match_ratings import Cause, RatingUpdated
from match_ratings_worker.ladder_settings import SettingsHistory
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import parse_stream_id

from .audit_report import Difference, DifferenceKind
from .ledger_replay import PendingVoid
from .recompute_event import compare_void


class SecondPass:
    """Collects the events of given matches, and the games of given players."""

    def __init__(self, matches: Collection[str], watched: dict[str, dict[str, int]]) -> None:
        """Fills `watched`: player -> match id -> finished_at in ms."""
        self._wanted, self._watched = matches, watched
        #: Match id -> ledger id and event, of the matches wanted.
        self.matches: dict[str, tuple[str, bytes]] = {}
        #: Watched player -> a match rated twice.
        self.rated_twice: dict[str, str] = {}

    def feed(self, ledger_id: str, raw: bytes) -> None:
        """Takes the next event."""
        try:
            event = orjson.loads(raw)
            cause, parts = event["cause"], event["players"]
            match_id = event.get("match_id")
            if cause == Cause.MATCH and match_id in self._wanted:
                self.matches.setdefault(match_id, (ledger_id, raw))
            for part in parts:
                games = self._watched.get(part["player"])
                if games is None:
                    continue
                if cause == Cause.MATCH:
                    if match_id in games:
                        self.rated_twice[part["player"]] = match_id
                    games[match_id] = event["finished_at"]
                elif cause == Cause.VOID:
                    games.pop(match_id, None)
                elif cause == Cause.IMPORT:
                    self._watched[part["player"]] = dict(part.get("brought", {}))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return  # reported by the first pass


def check_void(
    match_id: str,
    void: PendingVoid,
    match: tuple[str, bytes] | None,
    history: SettingsHistory,
    *,
    complete: bool,
) -> list[Difference] | None:
    """The differences of a void from the inverse of its match; None when it is no longer known.

    `complete`: the ledger has every event ever added.
    """

    def difference(text: str) -> Difference:
        return Difference(DifferenceKind.FIGURES, f"event {void.ledger_id}: {text}", ledger_id=void.ledger_id)

    if match is None:
        return [difference(f"it voids {quote(match_id)}, which the ledger lacks")] if complete else None
    ledger_id, raw = match
    if parse_stream_id(ledger_id) > parse_stream_id(void.ledger_id):
        return [difference(f"it voids {quote(match_id)}, which was rated later, as {ledger_id}")]
    try:
        rated = RatingUpdated.model_validate_json(raw)
    except ValidationError:
        return []  # reported already
    system = history.system_of(void.ledger_id, void.event)
    if system is None or not any(void.before):
        return None
    return [difference(text) for text in compare_void(void.event, rated, system, void.before)]
