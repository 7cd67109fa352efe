"""Fixtures of the rating tests: the published figures, and the path of a game through an event and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from match_ratings import RatingUpdated
from match_ratings_worker.rating import Game, Outcome, RatingSystem, State
from match_ratings_worker.rating.hypothetical_event import event_of

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], Any]:
    """The figures of tests/support/vectors/<name>.json."""
    return lambda name: json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def through_json() -> Callable[[RatingSystem, State, State, Game], tuple[Outcome, RatingUpdated]]:
    """The outcome of a game, and its event as a consumer reads it."""

    def travel(
        system: RatingSystem, first: State, second: State, game: Game
    ) -> tuple[Outcome, RatingUpdated]:
        outcome = system.rate(first, second, game)
        event = event_of(system, (first, second), game, outcome=outcome)
        return outcome, RatingUpdated.model_validate_json(event.model_dump_json())

    return travel
