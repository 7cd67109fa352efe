"""A player's stored state: the fields of the hash, and their values as a `State`."""

from __future__ import annotations

from collections.abc import Sequence

from match_ratings_worker.rating import STATE_FIELDS, RatingSystem, State


def stored_fields(system: RatingSystem) -> tuple[str, ...]:
    """The hash fields of a player, in the order in which the scripts read and write them."""
    return (*STATE_FIELDS, *system.state_fields)


def parse_state(values: Sequence[bytes | None], system: RatingSystem) -> State | None:
    """The state in the values of `stored_fields`; None when no rating is stored.

    Raises ValueError when a value is missing or is not a number that the system allows.
    """
    rating, _, games, last_game, *extra = values
    if rating is None:
        return None
    try:
        numbers = tuple([float(value) for value in extra])  # type: ignore[arg-type]  # None raises TypeError
        return State(system.parse_rating(rating), int(games or 0), int(last_game or 0), numbers)
    except TypeError:
        missing = [name for name, value in zip(system.state_fields, extra, strict=True) if value is None]
        msg = f"it has no {' and no '.join(missing)}"
        raise ValueError(msg) from None
