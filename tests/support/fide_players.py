"""Players, games and months for the tests of FIDE's rating."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Fide, Game, Outcome, RatingSystem, Side, State
from match_ratings_worker.rating.fide import FidePeriodState

Vectors = Callable[[str], Any]
Travel = Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


AT = ms("2026-10-15")
LATER = ms("2026-11-15")
SCORES = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
MONTH = Fide(floor=1)


def player(rating: int, games: int = 100, **standing: int) -> State:
    return State(rating, games, extra=FidePeriodState(**standing).extra())


def after(state: State, side: Side, played: int = 1) -> State:
    """The state as the worker keeps it after a game (or, with 0, after a closing)."""
    return State(side.rating, state.games + played, state.last_game, side.extra)


def accrued(system: Fide, state: State, games: Sequence[tuple[int, float]], at: int = AT) -> State:
    for opponent, score in games:
        game = Game(at, (score, 1 - score))
        state = after(state, system.rate(state, player(opponent), game).sides[0])
    return state
