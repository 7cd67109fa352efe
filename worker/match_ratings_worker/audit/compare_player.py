"""Compares the state that a player must have by the ledger with the stored one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from match_ratings_worker.rating import Number, RatingSystem, State
from match_ratings_worker.storage import StoredPlayer

from .audit_report import Difference, DifferenceKind
from .player_from_ledger import ExpectedPlayer

#: Games named in a sentence.
_NAMED = 5


class Derived(NamedTuple):
    """The data derived from a player's state: leaderboard score, and end of the open period in ms."""

    score: float | None
    closes_at: float | None


def derive(state: State, system: RatingSystem) -> Derived:
    """The derived data that belong to a state."""
    return Derived(float(state.rating) if system.on_leaderboard(state) else None, system.closes_at(state))


def known_state(expected: ExpectedPlayer, stored: StoredPlayer, system: RatingSystem) -> State | None:
    """The state by the ledger, with fields that it does not have taken from the stored state."""
    state = expected.state()
    if state is None and (other := stored.state(system)) is not None:
        state = State(expected.rating, expected.games, expected.last_game, other.extra)
    return state


def compare_player(
    name: str, expected_player: ExpectedPlayer, stored: StoredPlayer, system: RatingSystem
) -> Iterator[Difference]:
    """The differences of one player, both as of the same moment; without those of the window."""

    def differs(kind: DifferenceKind, what: str, found: object, expected: object) -> Difference:
        text = f"{name}: {what} is {_shown(found)}; by the ledger it is {_shown(expected)}"
        return Difference(kind, text, name)

    rating, sequence, games, last_game, *extra = stored.values
    if stored.fault:
        yield Difference(DifferenceKind.PLAYER, f"{name}: it cannot be read: {stored.fault}", name)
        return
    if not stored.exists:
        yield Difference(
            DifferenceKind.PLAYER,
            f"{name}: nothing is stored; by the ledger it is {expected_player.rating}",
            name,
        )
    else:
        if _number(rating, system) != expected_player.rating:
            yield differs(DifferenceKind.RATING, "rating", rating, expected_player.rating)
        if sequence != b"%d" % expected_player.sequence:
            yield differs(DifferenceKind.SEQUENCE, "sequence", sequence, expected_player.sequence)
        if expected_player.complete:
            if games != b"%d" % expected_player.games:
                yield differs(DifferenceKind.GAMES, "games", games, expected_player.games)
            if last_game != b"%d" % expected_player.last_game:
                yield differs(DifferenceKind.GAMES, "last_game", last_game, expected_player.last_game)
        if expected_player.extra is not None:
            for field, value, known in zip(system.state_fields, extra, expected_player.extra, strict=True):
                if _float(value) != known:
                    yield differs(DifferenceKind.STATE, field, value, known)
    state = known_state(expected_player, stored, system)
    if state is None:
        return
    yield from compare_derived(name, stored, derive(state, system), "the ledger")


def compare_derived(name: str, stored: StoredPlayer, right: Derived, by: str) -> Iterator[Difference]:
    """The differences in a player's derived data; `by` names the source of the right ones."""
    for kind, what, found, expected in (
        (DifferenceKind.LEADERBOARD, "the score on the leaderboard", stored.score, right.score),
        (DifferenceKind.PERIOD, "the end of the open period", stored.closes_at, right.closes_at),
    ):
        if found != expected:
            text = f"{name}: {what} is {_shown(found)}; by {by} it is {_shown(expected)}"
            yield Difference(kind, text, name)


def compare_games(stored: Mapping[str, int], known: Mapping[str, int]) -> str:
    """The differences of two windows, as the end of a sentence; "" when they are equal."""
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
