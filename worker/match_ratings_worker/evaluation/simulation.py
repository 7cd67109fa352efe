"""Simulate a match history in memory, by the same rules as the worker."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from match_ratings import PlayerUpdate, RatingUpdated
from match_ratings_worker.rating import Game, InvalidGame, Number, Outcome, RatingSystem, State
from match_ratings_worker.rating.hypothetical_event import event_of
from match_ratings_worker.time_units import WINDOW_MS

from .match_history import HistoryRecord, InitialState, Match, PeriodEnd, Prize, Void


class Prediction(NamedTuple):
    """A prediction of a match, and its result."""

    #: In ms.
    finished_at: int
    #: The first player's expected score, 0..1, and the actual one: 1, 0.5 or 0.
    expected: float
    score: float
    #: The first player's rating less the second's, in points, and the part of it that counts.
    gap: float
    effective_difference: float
    #: The rated games that both players had at least before it.
    games: int


class Simulation:
    """The players' states after the records fed so far."""

    def __init__(self, system: RatingSystem, *, voided: Iterable[str] = ()) -> None:
        """`voided` are the ids of the matches that a later record voids."""
        self.system = system
        self.states: dict[str, State] = {}
        #: Matches that this system does not rate.
        self.skipped = 0
        self._voided = frozenset(voided)
        self._parts: dict[str, RatingUpdated] = {}
        self._settled: set[str] = set()
        self._games: dict[str, list[int]] = {}

    def feed(self, record: HistoryRecord) -> Prediction | None:
        """Apply a record; return the prediction of a match, or None if the system made none."""
        if isinstance(record, Match):
            return self._match(record)
        if isinstance(record, Prize):
            for player, points in record.points:
                self.states[player] = self.system.award(self.state(player), points)
        elif isinstance(record, Void):
            self._void(record)
        elif isinstance(record, PeriodEnd):
            self._close(record.player, record.at)
        else:
            self._start(record)
        return None

    def state(self, player: str) -> State:
        """A player's state; that of a new player if no record mentions the player."""
        found = self.states.get(player)
        return self.system.initial() if found is None else found

    def _match(self, record: Match) -> Prediction | None:
        names, at = record.players, record.finished_at
        if record.match_id in self._settled:
            return None  # sent again: it has one effect
        self._settled.add(record.match_id)
        recent = record.recent_games or (self._recent(names[0], at), self._recent(names[1], at))
        game = Game(at, (record.score, 1.0 - record.score), recent, record.cube, record.length)
        if not self.system.accepts(game):
            self.skipped += 1
            return None
        first, second = (self._close(name, at) for name in names)
        try:
            outcome = self.system.rate(first, second, game)
        except InvalidGame:
            self.skipped += 1
            return None
        for name, state, side in zip(names, (first, second), outcome.sides, strict=True):
            last_game = max(state.last_game, at)
            self.states[name] = State(side.rating, state.games + 1, last_game, side.extra)
            insort(self._games.setdefault(name, []), at)
        if record.match_id in self._voided:
            self._parts[record.match_id] = event_of(
                self.system, (first, second), game, outcome=outcome, names=names
            )
        return _prediction(self.system, (first, second), outcome, record)

    def _recent(self, player: str, at: int) -> int:
        """A player's games in the 7 days before a time in ms."""
        games = self._games.get(player)
        return bisect_left(games, at) - bisect_left(games, at - WINDOW_MS) if games else 0

    def _close(self, player: str, at: int) -> State:
        """The player's state at a time in ms; closes the rating period if it has ended by then."""
        state = self.state(player)
        closes_at = self.system.closes_at(state)
        if closes_at is not None and closes_at <= at:
            side = self.system.close(state)
            state = self.states[player] = state._replace(rating=side.rating, extra=side.extra)
        return state

    def _void(self, record: Void) -> None:
        event = self._parts.pop(record.match_id, None)
        if event is None:
            return
        try:
            states = [self.system.void(self.states[part.player], part) for part in event.players]
        except InvalidGame:
            return
        for part, state in zip(event.players, states, strict=True):
            self.states[part.player] = state._replace(games=max(state.games - 1, 0))
            games = self._games[part.player]
            del games[bisect_left(games, event.finished_at)]

    def _start(self, record: InitialState) -> None:
        initial = self.system.initial()
        own = record.own if record.system == self.system.name else {}
        extra = zip(self.system.state_fields, initial.extra, strict=True)
        rating = round(record.rating) if self.system.integer_ratings else float(record.rating)
        self.states[record.player] = State(
            rating, record.games, record.last_game, tuple([own.get(name, value) for name, value in extra])
        )


def prediction_of(system: RatingSystem, event: RatingUpdated) -> Prediction | None:
    """The prediction in an event with cause `match`; None if the system made none."""
    first, second = event.players
    return _predicted(
        system,
        (first.before, second.before),
        (first.expected or 0.0, second.expected or 0.0),
        float(first.score or 0),
        event.finished_at,
        min(_changes(first), _changes(second)),
    )


def _changes(part: PlayerUpdate) -> int:
    return part.sequence - 1


def _prediction(
    system: RatingSystem, before: tuple[State, State], outcome: Outcome, record: Match
) -> Prediction | None:
    (first, second), (one, two) = before, outcome.sides
    games = min(first.games, second.games)
    ratings, expected = (first.rating, second.rating), (one.expected, two.expected)
    return _predicted(system, ratings, expected, record.score, record.finished_at, games)


def _predicted(
    system: RatingSystem,
    ratings: tuple[Number, Number],
    expected: tuple[float, float],
    score: float,
    finished_at: int,
    games: int,
) -> Prediction | None:
    if not sum(expected):  # one of them is unrated: nothing is expected of either
        return None
    # The two do not add up to one where each side has its own reasons for doubt.
    chance = (expected[0] + 1.0 - expected[1]) / 2.0
    own, opponent = ratings
    effective_difference = system.effective_difference(own, opponent, chance, finished_at)
    return Prediction(finished_at, chance, score, own - opponent, effective_difference, games)
