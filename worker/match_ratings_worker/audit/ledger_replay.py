"""Replays a ledger: fed its events in order, it knows each player's expected state. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.ladder_settings import SettingsHistory
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.safe_text import describe_error, quote
from match_ratings_worker.storage import LadderHandle
from match_ratings_worker.time_units import CLOCK_SKEW_MS, DAY_MS, WINDOW_MS

from .audit_report import Difference, DifferenceKind
from .player_from_ledger import ExpectedPlayer
from .recompute_event import Recomputed, recompute_event

#: How long after it was rated a game may have finished, by another clock, in ms; doubled for safety.
_SKEW: Final = 2 * CLOCK_SKEW_MS


@dataclass(frozen=True, slots=True)
class PendingVoid:
    """A void that is still to be compared with its match's event."""

    ledger_id: str
    event: RatingUpdated
    #: The players' states before it; None for those not known.
    before: list[State | None]


class LedgerReplay:
    """The expected state of each player of a ladder after the last event fed."""

    def __init__(
        self,
        ladder: LadderHandle,
        history: SettingsHistory,
        *,
        now: int,
        report: Callable[[Difference], None],
    ) -> None:
        """`now` is the server's time in ms; `report` is called with each difference."""
        self.history = history
        self._ladder, self._horizon_ms, self._report = ladder.name, ladder.horizon_ms, report
        #: Windows are compared from this time on, in ms.
        self.compare_from = now - WINDOW_MS - ladder.horizon_ms
        #: Whether the ledger has every event ever added.
        self.complete = False
        #: Ids of the first and the last event.
        self.first, self.last = "", "0-0"
        self.events = 0
        #: Cause -> number of events.
        self.causes: dict[Cause, int] = {}
        self.players: dict[str, ExpectedPlayer] = {}
        self.voids: dict[str, PendingVoid] = {}
        #: Player -> match id -> finished_at in ms, of the players in the second pass.
        self.watched: dict[str, dict[str, int]] = {}

    def feed(self, ledger_id: str, raw: bytes) -> RatingUpdated | None:
        """Takes the next event and returns it; None when it is not an event of this ladder."""
        self.first, self.last = self.first or ledger_id, ledger_id
        self.events += 1
        try:
            event = RatingUpdated.model_validate_json(raw)
        except ValidationError as error:
            self._differs(
                DifferenceKind.EVENT, ledger_id, f"it is not a rating-updated event: {describe_error(error)}"
            )
            return None
        system = self.history.system_of(ledger_id, event)
        if event.ladder != self._ladder or system is None:
            named = f"ladder {event.ladder}" if event.ladder != self._ladder else f"system {event.system}"
            self._differs(DifferenceKind.EVENT, ledger_id, f"it is of {named}, which is not this ladder's")
            return None
        self.causes[event.cause] = self.causes.get(event.cause, 0) + 1
        recomputed = recompute_event(event, system)
        for text in recomputed.differences:
            self._differs(DifferenceKind.FIGURES, ledger_id, text)
        players = [self._expected_before(ledger_id, event, part, system) for part in event.players]
        if event.cause is Cause.MATCH:
            self._match(ledger_id, event, system, players, recomputed)
        elif event.cause is Cause.VOID:
            self._void(ledger_id, event, system, players)
        elif event.cause is Cause.IMPORT:
            self._import(event, system, players)
        elif event.cause is not Cause.PRIZE:
            for index, (part, expected) in enumerate(zip(event.players, players, strict=True)):
                if expected is not None:
                    self._own_fields(ledger_id, part, expected, system, recomputed, index)
        for part, expected in zip(event.players, players, strict=True):
            if expected is not None:
                expected.rating, expected.sequence = part.after, part.sequence
        return event

    def _expected_before(
        self, ledger_id: str, event: RatingUpdated, part: PlayerUpdate, system: RatingSystem
    ) -> ExpectedPlayer | None:
        """The player's state before an event, corrected by the event; None for an event out of order."""
        expected = self.players.get(part.player)
        if expected is None:
            expected = self.players[part.player] = ExpectedPlayer(system.initial())
            if part.sequence != 1:
                if self.complete:
                    text = f"the first of {part.player} that is there is change {part.sequence}"
                    self._differs(DifferenceKind.MISSING, ledger_id, text, part.player)
                expected.begin_at(part, event.rated_at + _SKEW, fields=bool(system.state_fields))
            elif part.before != expected.rating:
                text = f"{part.player} began with {part.before}; new players have {expected.rating}"
                self._differs(DifferenceKind.CHAIN, ledger_id, text, part.player)
            return expected
        if part.sequence == expected.sequence + 1:
            if part.before != expected.rating:
                text = f"{part.player} had {part.before} before it; the event before left {expected.rating}"
                self._differs(DifferenceKind.CHAIN, ledger_id, text, part.player)
                expected.rating = part.before
            return expected
        if part.sequence <= expected.sequence:
            text = (
                f"it is change {part.sequence} of {part.player}, but comes after change {expected.sequence}"
            )
            self._differs(DifferenceKind.MISSING, ledger_id, text, part.player)
            return None
        missing = part.sequence - expected.sequence - 1
        noun = "event" if missing == 1 else "events"
        text = f"{missing} {noun} of {part.player} before it are missing, after change {expected.sequence}"
        self._differs(DifferenceKind.MISSING, ledger_id, text, part.player)
        expected.begin_at(part, event.rated_at + _SKEW, fields=bool(system.state_fields))
        return expected

    def _match(
        self,
        ledger_id: str,
        event: RatingUpdated,
        system: RatingSystem,
        players: list[ExpectedPlayer | None],
        recomputed: Recomputed,
    ) -> None:
        finished_at, match_id = event.finished_at, event.match_id or ""
        if all(expected is not None and expected.complete for expected in players):
            late = any(finished_at < expected.last_game for expected in players if expected is not None)
            if late != event.late:
                self._differs(
                    DifferenceKind.FIGURES,
                    ledger_id,
                    f"late: {event.late} in the event, {late} by the ledger",
                )
        oldest = event.rated_at - WINDOW_MS - self._horizon_ms - DAY_MS
        for index, (part, expected) in enumerate(zip(event.players, players, strict=True)):
            if expected is None:
                continue
            self._own_fields(ledger_id, part, expected, system, recomputed, index)
            # Games older than the horizon may have expired before they were counted.
            if finished_at >= event.rated_at - self._horizon_ms:
                recent = expected.recent_games(finished_at)
                if recent is not None and recent != part.recent_games:
                    text = f"recent_games of {part.player}: {part.recent_games} in the event, {recent} by"
                    self._differs(DifferenceKind.FIGURES, ledger_id, f"{text} the ledger", part.player)
            expected.games += 1
            expected.last_game = max(expected.last_game, finished_at)
            expected.add_game(match_id, finished_at, oldest=oldest, compare_from=self.compare_from)
            if part.player in self.watched:
                self.watched[part.player][match_id] = finished_at

    def _own_fields(
        self,
        ledger_id: str,
        part: PlayerUpdate,
        expected: ExpectedPlayer,
        system: RatingSystem,
        recomputed: Recomputed,
        index: int,
    ) -> None:
        """Compares the fields before an event with the expected ones, and takes over those after it."""
        if not recomputed.sides:
            expected.extra = None if system.state_fields else ()
            return
        before = recomputed.before[index]
        if expected.extra is not None and before != expected.extra:
            for name, given, known in zip(system.state_fields, before, expected.extra, strict=True):
                if given != known:
                    text = (
                        f"{name} of {part.player} was {given:g} before it; the events before left {known:g}"
                    )
                    self._differs(DifferenceKind.CHAIN, ledger_id, text, part.player)
        if expected.complete:
            for name, known in (("games", expected.games), ("last_game", expected.last_game)):
                given = part.figures.get(name, known)
                if given != known:
                    text = f"{name} of {part.player} were {given} before it; by the ledger they were {known}"
                    self._differs(DifferenceKind.CHAIN, ledger_id, text, part.player)
        expected.extra = recomputed.sides[index].extra

    def _void(
        self, ledger_id: str, event: RatingUpdated, system: RatingSystem, players: list[ExpectedPlayer | None]
    ) -> None:
        match_id = event.match_id or ""
        if match_id in self.voids:
            first = self.voids[match_id].ledger_id
            self._differs(
                DifferenceKind.FIGURES, ledger_id, f"{quote(match_id)} was voided by {first} before"
            )
        else:
            before = [None if expected is None else expected.state() for expected in players]
            self.voids[match_id] = PendingVoid(ledger_id, event, before)
        for part, expected in zip(event.players, players, strict=True):
            if expected is None:
                continue
            expected.games = max(expected.games - 1, 0)
            if expected.extra is not None:
                fields = zip(system.state_fields, expected.extra, strict=True)
                expected.extra = tuple(
                    [float(part.figures.get(f"{name}_after", old)) for name, old in fields]
                )
            expected.remove_game(match_id, event.finished_at, compare_from=self.compare_from)
            if part.player in self.watched:
                self.watched[part.player].pop(match_id, None)

    def _import(
        self, event: RatingUpdated, system: RatingSystem, players: list[ExpectedPlayer | None]
    ) -> None:
        """Replaces the whole state of the imported players."""
        oldest = event.rated_at - WINDOW_MS - self._horizon_ms - DAY_MS
        for part, expected in zip(event.players, players, strict=True):
            if expected is None:
                continue
            figures = part.figures
            expected.since = 1
            expected.games = int(figures.get("games_after", 0))
            expected.last_game = int(figures.get("last_game_after", 0))
            start = zip(system.state_fields, system.initial().extra, strict=True)
            expected.extra = tuple([float(figures.get(f"{name}_after", value)) for name, value in start])
            expected.forget_games(0)
            for match_id, finished_at in part.brought.items():
                expected.add_game(match_id, finished_at, oldest=oldest, compare_from=self.compare_from)
            if part.player in self.watched:
                self.watched[part.player] = dict(part.brought)

    def _differs(self, kind: DifferenceKind, ledger_id: str, text: str, player: str | None = None) -> None:
        self._report(Difference(kind, f"event {ledger_id}: {text}", player, ledger_id))
