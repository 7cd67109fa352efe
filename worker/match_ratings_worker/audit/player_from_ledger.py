"""The state that a player must have by the ledger. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from match_ratings import PlayerUpdate
from match_ratings_worker.rating import Number, State
from match_ratings_worker.time_units import WINDOW_MS

_MASK: Final = (1 << 64) - 1


class ExpectedPlayer:
    """A player's state by the events so far; kept small, as there is one for each player."""

    __slots__ = (
        "extra",
        "games",
        "ids",
        "last_game",
        "rating",
        "sequence",
        "since",
        "times",
        "window_from",
        "window_games",
    )

    def __init__(self, state: State) -> None:
        self.rating: Number = state.rating
        self.games = state.games
        self.last_game = state.last_game
        #: The system's own fields; None while no event has given them.
        self.extra: tuple[float, ...] | None = state.extra
        #: Number of the player's changes.
        self.sequence = 0
        #: The first change that the ledger has; 1 when it has them all.
        self.since = 1
        #: Games that finished before this time, in ms, may be missing below.
        self.window_from = 0
        #: Finish times of the ranked games that a later game can still count, in ms, sorted.
        self.times: array[int] | None = None
        #: How many of the games are compared, and a hash sum of their ids and times.
        self.window_games = 0
        self.ids = 0

    @property
    def complete(self) -> bool:
        """Whether the ledger has all the player's changes."""
        return self.since == 1

    def state(self) -> State | None:
        """The state; None when a part of it is not known."""
        if self.extra is None:
            return None
        return State(self.rating, self.games, self.last_game, self.extra)

    def begin_at(self, part: PlayerUpdate, known_from: int, *, fields: bool) -> None:
        """Starts over from the state before an event, as earlier events are not known.

        Games that finished from `known_from` (ms) on cannot have been rated before it. `fields` tells
        whether the system has fields of its own.
        """
        self.rating = part.before
        self.games = self.last_game = 0
        self.extra = None if fields else ()
        self.since = part.sequence
        self.forget_games(known_from)

    def forget_games(self, known_from: int) -> None:
        """Empties the window; only games that finish from `known_from` (ms) on are known."""
        self.window_from = known_from
        self.times, self.ids, self.window_games = None, 0, 0

    def add_game(self, match_id: str, finished_at: int, *, oldest: int, compare_from: int) -> None:
        """Adds a game to the window and drops games from before `oldest`, which no other game counts.

        The window is compared from `compare_from` on; times in ms.
        """
        times = self.times
        if times is None:
            times = self.times = array("q")
        if times and times[0] < oldest:
            del times[: bisect_left(times, oldest)]
        if not times or finished_at >= times[-1]:
            times.append(finished_at)
        else:
            times.insert(bisect_left(times, finished_at), finished_at)
        if finished_at >= compare_from and finished_at >= self.window_from:
            self.window_games += 1
            self.ids = (self.ids + hash((match_id, finished_at))) & _MASK

    def remove_game(self, match_id: str, finished_at: int, *, compare_from: int) -> None:
        """Removes a game from the window; arguments as for `add_game`."""
        times = self.times
        if times is None:
            return
        index = bisect_left(times, finished_at)
        if index == len(times) or times[index] != finished_at:
            return  # it was rated before the known events, or replaced by an import
        del times[index]
        if finished_at >= compare_from and finished_at >= self.window_from:
            self.window_games -= 1
            self.ids = (self.ids - hash((match_id, finished_at))) & _MASK

    def recent_games(self, finished_at: int) -> int | None:
        """Number of ranked games in the 7 days before a time in ms; None when some are not known."""
        opens = finished_at - WINDOW_MS
        if opens < self.window_from:
            return None
        if self.times is None:
            return 0
        return bisect_left(self.times, finished_at) - bisect_left(self.times, opens)

    def has_window(self, games: dict[str, int]) -> bool:
        """Whether these games, id -> finished_at in ms, are those of the compared part of the window."""
        if len(games) != self.window_games:
            return False
        return sum(hash(game) for game in games.items()) & _MASK == self.ids
