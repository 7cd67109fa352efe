"""Sets a player's standing by the ledger against what is stored. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from match_ratings_worker.audit.audit_report import Difference, Kind
from match_ratings_worker.audit.expected_player import ExpectedPlayer
from match_ratings_worker.rating import Number, RatingSystem, State
from match_ratings_worker.storage.player_states import parse_state

__all__ = [
    "Derived",
    "Stored",
    "compare",
    "derived",
    "differing",
    "differing_games",
    "known_state",
    "stored_state",
]

#: Games that a sentence names.
_NAMED = 5


class Stored(NamedTuple):
    """What Redis holds of a player."""

    #: rating, sequence, games, last_game, and the system's own fields, as stored.
    values: list[bytes | None]
    #: The score on the leaderboard, and in the set of open periods.
    score: float | None
    closes_at: float | None
    #: Match id -> finished_at in ms, the games that are to be compared.
    games: dict[str, int]
    #: What is wrong with one of the keys: it holds something else.
    fault: str = ""

    @property
    def there(self) -> bool:
        """Whether a state is stored at all."""
        return self.values[0] is not None or self.values[1] is not None


class Derived(NamedTuple):
    """What follows from a player's state."""

    score: float | None
    closes_at: float | None


def derived(state: State, system: RatingSystem) -> Derived:
    """The leaderboard's score and the end of the open period that belong to a state."""
    return Derived(float(state.rating) if system.on_leaderboard(state) else None, system.closes_at(state))


def stored_state(stored: Stored, system: RatingSystem) -> State | None:
    """The stored state; None when it is not there or cannot be read."""
    try:
        return parse_state(stored.values, system)
    except ValueError:
        return None


def known_state(track: ExpectedPlayer, stored: Stored, system: RatingSystem) -> State | None:
    """The state by the ledger; what it does not tell is taken from what is stored."""
    state = track.state()
    if state is None and (other := stored_state(stored, system)) is not None:
        state = State(track.rating, track.games, track.last_game, other.extra)
    return state


def compare(name: str, track: ExpectedPlayer, stored: Stored, system: RatingSystem) -> Iterator[Difference]:
    """The differences of one player; both are of the same moment. Of the window see `Track.has_window`."""

    def tell(kind: Kind, what: str, found: object, expected: object) -> Difference:
        text = f"{name}: {what} is {_shown(found)}; by the ledger it is {_shown(expected)}"
        return Difference(kind, text, name)

    rating, sequence, games, last_game, *extra = stored.values
    if stored.fault:
        yield Difference(Kind.PLAYER, f"{name}: it cannot be read: {stored.fault}", name)
        return
    if not stored.there:
        yield Difference(Kind.PLAYER, f"{name}: nothing is stored; by the ledger it is {track.rating}", name)
    else:
        if _number(rating, system) != track.rating:
            yield tell(Kind.RATING, "rating", rating, track.rating)
        if sequence != b"%d" % track.sequence:
            yield tell(Kind.SEQUENCE, "sequence", sequence, track.sequence)
        if track.whole:
            if games != b"%d" % track.games:
                yield tell(Kind.GAMES, "games", games, track.games)
            if last_game != b"%d" % track.last_game:
                yield tell(Kind.GAMES, "last_game", last_game, track.last_game)
        if track.extra is not None:
            for field, value, known in zip(system.state_fields, extra, track.extra, strict=True):
                if _float(value) != known:
                    yield tell(Kind.STATE, field, value, known)
    state = known_state(track, stored, system)
    if state is None:
        return
    yield from differing(name, stored, derived(state, system), "the ledger")


def differing(name: str, stored: Stored, right: Derived, by: str) -> Iterator[Difference]:
    """The differences in what follows from a player's state, which is known by the ledger or otherwise."""
    for kind, what, found, expected in (
        (Kind.LEADERBOARD, "the score on the leaderboard", stored.score, right.score),
        (Kind.PERIOD, "the end of the open period", stored.closes_at, right.closes_at),
    ):
        if found != expected:
            text = f"{name}: {what} is {_shown(found)}; by {by} it is {_shown(expected)}"
            yield Difference(kind, text, name)


def differing_games(stored: Mapping[str, int], known: Mapping[str, int]) -> str:
    """How two windows differ, as the end of a sentence; "" when they do not."""
    missing = sorted(game for game, time in known.items() if stored.get(game) != time)
    beyond = sorted(stored.keys() - known.keys())
    parts = []
    for games, what in ((missing, "missing or at another time"), (beyond, "too many")):
        if games:
            noun = "game" if len(games) == 1 else "games"
            named = f"{', '.join(games[:_NAMED])}{', ...' if len(games) > _NAMED else ''}"
            parts.append(f"{len(games)} {noun} {what} ({named})")
    return ", ".join(parts)


def _number(value: bytes | None, system: RatingSystem) -> Number | None:
    try:
        return None if value is None else system.parse_rating(value)
    except ValueError:
        return None


def _float(value: bytes | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bytes):
        return value[:40].decode("ascii", "backslashreplace")
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
