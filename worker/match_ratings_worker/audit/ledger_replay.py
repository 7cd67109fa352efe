"""Replays a ledger: fed its events in order, it knows every player's standing. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.audit.audit_report import Difference, Kind
from match_ratings_worker.audit.expected_player import ExpectedPlayer
from match_ratings_worker.audit.recompute_event import Recomputed, computed
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.text import describe_error, quote
from match_ratings_worker.units import CLOCK_SKEW_MS, DAY_MS, WINDOW_MS

__all__ = ["PendingVoid", "Replay"]

#: A game may have finished this much after it was rated, by another clock; doubled to be sure, in ms.
_SKEW: Final = 2 * CLOCK_SKEW_MS


@dataclass(frozen=True, slots=True)
class PendingVoid:
    """A match that was taken back: to be compared with the match's own event."""

    ledger_id: str
    event: RatingUpdated
    #: The players' states when it came; None for one that is not known.
    before: list[State | None]


class Replay:
    """The standings of all players of a ladder up to the last event that it was fed."""

    def __init__(
        self,
        ladder: str,
        rulebook: SettingsHistory,
        *,
        horizon: int,
        cut: int,
        found: Callable[[Difference], None],
    ) -> None:
        """Windows are to be compared from `cut` on; `horizon` is how old a match may be; both in ms."""
        self.ladder, self.rulebook, self.horizon, self.cut = ladder, rulebook, horizon, cut
        self._found = found
        #: Whether nothing was ever taken from the ledger.
        self.complete = False
        #: Stream ids of the first and the last event.
        self.first, self.last = "", "0-0"
        self.events = 0
        #: Cause -> events.
        self.causes: dict[Cause, int] = {}
        self.tracks: dict[str, ExpectedPlayer] = {}
        self.voids: dict[str, PendingVoid] = {}
        #: Games, id -> finished_at in ms, of players whose windows are looked at closely.
        self.watched: dict[str, dict[str, int]] = {}

    def feed(self, ledger_id: str, raw: bytes) -> RatingUpdated | None:
        """Takes the next event of the ledger; None when it is not one of this ladder."""
        self.first, self.last = self.first or ledger_id, ledger_id
        self.events += 1
        try:
            event = RatingUpdated.model_validate_json(raw)
        except ValidationError as error:
            self._tell(Kind.EVENT, ledger_id, f"it is not a rating-updated event: {describe_error(error)}")
            return None
        system = self.rulebook.system_of(ledger_id, event)
        if event.ladder != self.ladder or system is None:
            named = f"ladder {event.ladder}" if event.ladder != self.ladder else f"system {event.system}"
            self._tell(Kind.EVENT, ledger_id, f"it is of {named}, which is not this ladder's")
            return None
        self.causes[event.cause] = self.causes.get(event.cause, 0) + 1
        again = computed(event, system)
        for text in again.differences:
            self._tell(Kind.FIGURES, ledger_id, text)
        tracks = [self._meet(ledger_id, event, part, system) for part in event.players]
        if event.cause is Cause.MATCH:
            self._match(ledger_id, event, system, tracks, again)
        elif event.cause is Cause.VOID:
            self._void(ledger_id, event, system, tracks)
        elif event.cause is Cause.IMPORT:
            self._import(event, system, tracks)
        elif event.cause is not Cause.PRIZE:
            self._period(ledger_id, event, system, tracks, again)
        for part, track in zip(event.players, tracks, strict=True):
            if track is not None:
                track.rating, track.sequence = part.after, part.sequence
        return event

    def _meet(
        self, ledger_id: str, event: RatingUpdated, part: PlayerUpdate, system: RatingSystem
    ) -> ExpectedPlayer | None:
        """The player's standing before an event, put right by what the event says; None when the
        player's later changes were there before it.
        """
        track = self.tracks.get(part.player)
        if track is None:
            track = self.tracks[part.player] = ExpectedPlayer(system.initial())
            if part.sequence != 1:
                if self.complete:
                    text = f"the first of {part.player} that is there is change {part.sequence}"
                    self._tell(Kind.MISSING, ledger_id, text, part.player)
                track.begin_at(part, event.rated_at + _SKEW, fields=bool(system.state_fields))
            elif part.before != track.rating:
                text = f"{part.player} began with {part.before}; new players have {track.rating}"
                self._tell(Kind.CHAIN, ledger_id, text, part.player)
            return track
        if part.sequence == track.sequence + 1:
            if part.before != track.rating:
                text = f"{part.player} had {part.before} before it; the event before left {track.rating}"
                self._tell(Kind.CHAIN, ledger_id, text, part.player)
                track.rating = part.before
            return track
        if part.sequence <= track.sequence:
            text = f"it is change {part.sequence} of {part.player}, but comes after change {track.sequence}"
            self._tell(Kind.MISSING, ledger_id, text, part.player)
            return None
        missing = part.sequence - track.sequence - 1
        noun = "event" if missing == 1 else "events"
        text = f"{missing} {noun} of {part.player} before it are missing, after change {track.sequence}"
        self._tell(Kind.MISSING, ledger_id, text, part.player)
        track.begin_at(part, event.rated_at + _SKEW, fields=bool(system.state_fields))
        return track

    def _match(
        self,
        ledger_id: str,
        event: RatingUpdated,
        system: RatingSystem,
        tracks: list[ExpectedPlayer | None],
        again: Recomputed,
    ) -> None:
        finished_at, match_id = event.finished_at, event.match_id or ""
        if all(track is not None and track.whole for track in tracks):
            late = any(finished_at < track.last_game for track in tracks if track is not None)
            if late != event.late:
                self._tell(Kind.FIGURES, ledger_id, f"late: {event.late} in the event, {late} by the ledger")
        oldest = event.rated_at - WINDOW_MS - self.horizon - DAY_MS
        for index, (part, track) in enumerate(zip(event.players, tracks, strict=True)):
            if track is None:
                continue
            self._own_fields(ledger_id, part, track, system, again, index)
            # What is older than the horizon may no longer have been kept when it was counted.
            if finished_at >= event.rated_at - self.horizon:
                recent = track.recent_games(finished_at)
                if recent is not None and recent != part.recent_games:
                    text = f"recent_games of {part.player}: {part.recent_games} in the event, {recent} by"
                    self._tell(Kind.FIGURES, ledger_id, f"{text} the ledger", part.player)
            track.games += 1
            track.last_game = max(track.last_game, finished_at)
            track.add_game(match_id, finished_at, oldest=oldest, cut=self.cut)
            if part.player in self.watched:
                self.watched[part.player][match_id] = finished_at

    def _period(
        self,
        ledger_id: str,
        event: RatingUpdated,
        system: RatingSystem,
        tracks: list[ExpectedPlayer | None],
        again: Recomputed,
    ) -> None:
        for index, (part, track) in enumerate(zip(event.players, tracks, strict=True)):
            if track is not None:
                self._own_fields(ledger_id, part, track, system, again, index)

    def _own_fields(
        self,
        ledger_id: str,
        part: PlayerUpdate,
        track: ExpectedPlayer,
        system: RatingSystem,
        again: Recomputed,
        index: int,
    ) -> None:
        """Compares the system's own fields before an event with what is known, and carries them on."""
        if not again.sides:
            track.extra = None if system.state_fields else ()
            return
        before = again.before[index]
        if track.extra is not None and before != track.extra:
            for name, told, known in zip(system.state_fields, before, track.extra, strict=True):
                if told != known:
                    text = f"{name} of {part.player} was {told:g} before it; the events before left {known:g}"
                    self._tell(Kind.CHAIN, ledger_id, text, part.player)
        if track.whole:
            for name, known in (("games", track.games), ("last_game", track.last_game)):
                told = part.figures.get(name, known)
                if told != known:
                    text = f"{name} of {part.player} were {told} before it; by the ledger they were {known}"
                    self._tell(Kind.CHAIN, ledger_id, text, part.player)
        track.extra = again.sides[index].extra

    def _void(
        self, ledger_id: str, event: RatingUpdated, system: RatingSystem, tracks: list[ExpectedPlayer | None]
    ) -> None:
        match_id = event.match_id or ""
        if match_id in self.voids:
            first = self.voids[match_id].ledger_id
            self._tell(Kind.FIGURES, ledger_id, f"{quote(match_id)} was taken back by {first} before")
        else:
            before = [None if track is None else track.state() for track in tracks]
            self.voids[match_id] = PendingVoid(ledger_id, event, before)
        for part, track in zip(event.players, tracks, strict=True):
            if track is None:
                continue
            track.games = max(track.games - 1, 0)
            if track.extra is not None:
                fields = zip(system.state_fields, track.extra, strict=True)
                track.extra = tuple([float(part.figures.get(f"{name}_after", old)) for name, old in fields])
            track.remove_game(match_id, event.finished_at, cut=self.cut)
            if part.player in self.watched:
                self.watched[part.player].pop(match_id, None)

    def _import(
        self, event: RatingUpdated, system: RatingSystem, tracks: list[ExpectedPlayer | None]
    ) -> None:
        """An import tells everything of its players, and replaces what was there."""
        oldest = event.rated_at - WINDOW_MS - self.horizon - DAY_MS
        for part, track in zip(event.players, tracks, strict=True):
            if track is None:
                continue
            figures = part.figures
            track.since = 1
            track.games = int(figures.get("games_after", 0))
            track.last_game = int(figures.get("last_game_after", 0))
            start = zip(system.state_fields, system.initial().extra, strict=True)
            track.extra = tuple([float(figures.get(f"{name}_after", value)) for name, value in start])
            track.forget_games(0)
            for match_id, finished_at in part.brought.items():
                track.add_game(match_id, finished_at, oldest=oldest, cut=self.cut)
            if part.player in self.watched:
                self.watched[part.player] = dict(part.brought)

    def _tell(self, kind: Kind, ledger_id: str, text: str, player: str | None = None) -> None:
        self._found(Difference(kind, f"event {ledger_id}: {text}", player, ledger_id))
