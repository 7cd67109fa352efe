"""A player's standing as the ledger tells it. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from match_ratings import PlayerUpdate
from match_ratings_worker.rating import Number, State
from match_ratings_worker.units import WINDOW_MS

__all__ = ["ExpectedPlayer"]

_MASK: Final = (1 << 64) - 1


class ExpectedPlayer:
    """What the ledger says of a player so far. There is one of these for each player: it is kept small."""

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
        #: The system's own fields; None while the ledger has not told them yet.
        self.extra: tuple[float, ...] | None = state.extra
        #: The player's changes so far.
        self.sequence = 0
        #: The change from which on the ledger tells; 1 when nothing of the player is unknown.
        self.since = 1
        #: Games that finished before this, in ms, may be missing from what follows.
        self.window_from = 0
        #: When the ranked games finished that a later game can still count, in ms and in order.
        self.times: array[int] | None = None
        #: How many of them are to be compared, and a sum over their ids and times.
        self.window_games = 0
        self.ids = 0

    @property
    def whole(self) -> bool:
        """Whether nothing of the player is unknown."""
        return self.since == 1

    def state(self) -> State | None:
        """The state; None when not all of it is known."""
        if self.extra is None:
            return None
        return State(self.rating, self.games, self.last_game, self.extra)

    def begin_at(self, part: PlayerUpdate, known_from: int, *, fields: bool) -> None:
        """Starts over from what an event says was before it: earlier ones are not known.

        Games that finished from `known_from` (ms) on cannot have been rated before it. `fields` says
        whether the system has fields of its own.
        """
        self.rating = part.before
        self.games = self.last_game = 0
        self.extra = None if fields else ()
        self.since = part.sequence
        self.forget_games(known_from)

    def forget_games(self, known_from: int) -> None:
        """Starts the window over: only games that finished from `known_from` (ms) on are known."""
        self.window_from = known_from
        self.times, self.ids, self.window_games = None, 0, 0

    def add_game(self, match_id: str, finished_at: int, *, oldest: int, cut: int) -> None:
        """A game enters the window; those before `oldest` are no longer counted by any other (ms).

        From `cut` (ms) on the window is to be compared.
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
        if finished_at >= cut and finished_at >= self.window_from:
            self.window_games += 1
            self.ids = (self.ids + hash((match_id, finished_at))) & _MASK

    def remove_game(self, match_id: str, finished_at: int, *, cut: int) -> None:
        """A game is taken out of the window."""
        times = self.times
        if times is None:
            return
        index = bisect_left(times, finished_at)
        if index == len(times) or times[index] != finished_at:
            return  # it was counted before what is known begins, or an import had replaced it
        del times[index]
        if finished_at >= cut and finished_at >= self.window_from:
            self.window_games -= 1
            self.ids = (self.ids - hash((match_id, finished_at))) & _MASK

    def recent_games(self, finished_at: int) -> int | None:
        """Ranked games in the 7 days before a game; None when not all of them are known."""
        opens = finished_at - WINDOW_MS
        if opens < self.window_from:
            return None
        if self.times is None:
            return 0
        return bisect_left(self.times, finished_at) - bisect_left(self.times, opens)

    def has_window(self, games: dict[str, int]) -> bool:
        """Whether these games, id -> finished_at in ms, are the ones that are to be compared."""
        if len(games) != self.window_games:
            return False
        return sum(hash(game) for game in games.items()) & _MASK == self.ids
