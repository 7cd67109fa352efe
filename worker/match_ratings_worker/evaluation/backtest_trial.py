"""One simulation of a match history with one system, and the figures to compare it by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from match_ratings_worker.rating import Number, RatingSystem, State
from match_ratings_worker.time_units import WINDOW_MS

from .calibration import Calibration, Sample, Z, log_loss
from .match_history import HistoryRecord, Match, Void
from .simulation import Prediction, Simulation

#: Matches between two calls of `progress`.
_PROGRESS_EVERY: Final = 1000


@dataclass(frozen=True, slots=True)
class RatingSpread:
    """The ratings at the end, in points."""

    players: int
    mean: float
    #: The standard deviation.
    deviation: float
    #: The 5th, 50th and 95th percentile.
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class WeeklySwing:
    """The weekly rating range of the players with the most games, in points."""

    players: int
    #: Weeks of 7 days in which one of them played.
    weeks: int
    #: Highest less lowest rating in a week: the mean over all weeks, and the largest.
    mean: float
    largest: float


@dataclass(slots=True)
class Trial:
    """The result of a simulation with one system."""

    system: RatingSystem
    #: Matches that this system does not rate.
    skipped: int = 0
    #: For each match the prediction; None where there was none.
    predictions: list[Prediction | None] = field(default_factory=list)
    #: Player -> rating at the end, without the unrated.
    ratings: dict[str, Number] = field(default_factory=dict)
    games: dict[str, int] = field(default_factory=dict)
    swing: WeeklySwing | None = None

    def quality(
        self, also: Trial | None = None, *, min_games: int = 0, width: float = 50.0
    ) -> Calibration | None:
        """The calibration of its predictions; with `also`, over the matches that both predicted.

        Matches count in which both players had `min_games` rated games by then (by either system).
        """
        others = also.predictions if also is not None else self.predictions
        sample = Sample()
        for own, other in zip(self.predictions, others, strict=True):
            if own is not None and other is not None and min(own.games, other.games) >= min_games:
                sample.add(own)
        return sample.calibration(width=width)

    def advantage(self, over: Trial, *, min_games: int = 0) -> tuple[float, float]:
        """The difference of its log loss from another's (negative: better), and its 95 % margin.

        Paired by match, over those that both predicted, so that luck common to both cancels out.
        """
        found = [
            log_loss(own.expected, own.score) - log_loss(other.expected, other.score)
            for own, other in zip(self.predictions, over.predictions, strict=True)
            if own is not None and other is not None and min(own.games, other.games) >= min_games
        ]
        if not found:
            return 0.0, 0.0
        mean = sum(found) / len(found)
        variance = sum((value - mean) ** 2 for value in found) / len(found)
        return mean, Z * (variance / len(found)) ** 0.5

    def spread(self, *, min_games: int = 0) -> RatingSpread | None:
        """The spread of the ratings of players with at least `min_games` games; None without such players."""
        found = sorted(
            float(rating) for name, rating in self.ratings.items() if self.games[name] >= max(min_games, 1)
        )
        if not found:
            return None
        count = len(found)
        mean = sum(found) / count
        deviation = (sum((rating - mean) ** 2 for rating in found) / count) ** 0.5
        low, median, high = (found[min(int(count * share), count - 1)] for share in (0.05, 0.5, 0.95))
        return RatingSpread(count, mean, deviation, low, median, high)


def most_active(records: Sequence[HistoryRecord], count: int) -> tuple[str, ...]:
    """The `count` players with the most matches; of equals, those first by id."""
    games: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Match):
            games.update(record.players)
    return tuple(sorted(games, key=lambda name: (-games[name], name))[:count])


def run_trial(
    records: Sequence[HistoryRecord],
    system: RatingSystem,
    *,
    watched: Collection[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Trial:
    """Simulate a match history with one system.

    The weekly swing is that of the `watched` players. `progress` gets the number of matches simulated
    since its last call.
    """
    voided = [record.match_id for record in records if isinstance(record, Void)]
    simulation, trial = Simulation(system, voided=voided), Trial(system)
    weeks = {name: _Weeks() for name in watched}
    done = 0
    for record in records:
        if not isinstance(record, Match):
            simulation.feed(record)
            continue
        seen = [name for name in record.players if name in weeks]
        for name in seen:
            weeks[name].add(record.finished_at, system, simulation.state(name))
        trial.predictions.append(simulation.feed(record))
        for name in seen:
            weeks[name].add(record.finished_at, system, simulation.state(name))
        done += 1
        if done % _PROGRESS_EVERY == 0:
            progress(_PROGRESS_EVERY)
    progress(done % _PROGRESS_EVERY)
    trial.skipped = simulation.skipped
    for name, state in simulation.states.items():
        trial.games[name] = state.games
        if system.rated(state):
            trial.ratings[name] = state.rating
    trial.swing = _swing(list(weeks.values()))
    return trial


class _Weeks:
    """A player's lowest and highest rating in each week with a match."""

    def __init__(self) -> None:
        self._found: dict[int, list[float]] = {}

    def add(self, at: int, system: RatingSystem, state: State) -> None:
        if not system.rated(state):
            return
        rating = float(state.rating)
        bounds = self._found.setdefault(at // WINDOW_MS, [rating, rating])
        bounds[0], bounds[1] = min(bounds[0], rating), max(bounds[1], rating)

    def swings(self) -> list[float]:
        return [high - low for low, high in self._found.values()]


def _swing(weeks: list[_Weeks]) -> WeeklySwing | None:
    found = [swing for player in weeks for swing in player.swings()]
    if not found:
        return None
    return WeeklySwing(len(weeks), len(found), sum(found) / len(found), max(found))
