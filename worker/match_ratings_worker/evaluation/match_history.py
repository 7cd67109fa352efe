"""A match history: the part of events and messages that any system can rate, without the ratings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from match_ratings import Cause, MatchVoided, Mode, PlayerUpdate, RatingUpdated, TournamentFinished
from match_ratings.messages import Message
from match_ratings_worker.rating import Number


class Match(NamedTuple):
    """A ranked match."""

    match_id: str
    players: tuple[str, str]
    #: The first player's: 1, 0.5 or 0.
    score: float
    #: In ms.
    finished_at: int
    cube: int = 1
    #: In points; None for an unlimited match.
    length: int | None = None
    #: Each player's ranked games in the 7 days before it, where they were counted already.
    recent_games: tuple[int, int] | None = None


class Prize(NamedTuple):
    """Rating points for places in a tournament."""

    points: tuple[tuple[str, int], ...]


class Void(NamedTuple):
    """A match that was voided."""

    match_id: str
    players: tuple[str, str]


class InitialState(NamedTuple):
    """The first known state of a player who is not new: imported, or met in the middle of a ledger."""

    player: str
    rating: Number
    #: The system of this rating, and the known values of its own fields.
    system: str
    own: dict[str, float]
    games: int = 0
    #: In ms; 0 when it is not known.
    last_game: int = 0


class PeriodEnd(NamedTuple):
    """A player's rating period was closed."""

    player: str
    #: When the period ended, in ms.
    at: int


HistoryRecord = Match | Prize | Void | InitialState | PeriodEnd


def of_message(message: Message) -> HistoryRecord | None:
    """A message as a record; None for one that changes no rating in any system."""
    if isinstance(message, MatchVoided):
        return Void(message.match_id, message.players)
    if isinstance(message, TournamentFinished):
        return Prize(tuple(zip(message.podium, message.prizes, strict=True))) if message.public else None
    if message.mode is not Mode.RANKED:
        return None
    score = 0.5 if message.winner is None else float(message.winner == message.players[0])
    return Match(message.match_id, message.players, score, message.finished_at, message.cube, message.length)


class LedgerReader:
    """Converts the events of a ledger, in order, into records."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        #: Players whose earliest events are no longer kept.
        self.partial_histories = 0

    def read(self, event: RatingUpdated) -> Iterator[HistoryRecord]:
        """Yield the event's records, first an `InitialState` of each player with earlier events elsewhere."""
        for part in event.players:
            if part.player not in self._known:
                self._known.add(part.player)
                if part.sequence != 1 and event.cause is not Cause.IMPORT:
                    self.partial_histories += 1
                    yield _initial_state(event.system, part, part.before, "_before")
        if event.cause is Cause.MATCH:
            yield _match(event)
        elif event.cause is Cause.PRIZE:
            yield Prize(tuple((part.player, round(part.change)) for part in event.players))
        elif event.cause is Cause.VOID:
            first, second = event.players
            yield Void(event.match_id or "", (first.player, second.player))
        elif event.cause is Cause.PERIOD:
            yield from (PeriodEnd(part.player, event.finished_at) for part in event.players)
        else:
            yield from (_initial_state(event.system, part, part.after, "_after") for part in event.players)


def _match(event: RatingUpdated) -> Match:
    first, second = event.players
    recent = None
    if first.recent_games is not None and second.recent_games is not None:
        recent = (first.recent_games, second.recent_games)
    length = event.figures.get("length")
    return Match(
        event.match_id or "",
        (first.player, second.player),
        float(first.score or 0),
        event.finished_at,
        event.cube or 1,
        None if length is None else int(length),
        recent,
    )


def _initial_state(system: str, part: PlayerUpdate, rating: Number, suffix: str) -> InitialState:
    figures = part.figures
    own = {
        name.removesuffix(suffix): float(value) for name, value in figures.items() if name.endswith(suffix)
    }
    games, last_game = int(figures.get("games", 0)), int(figures.get("last_game", 0))
    return InitialState(part.player, rating, system, own, games, last_game)
