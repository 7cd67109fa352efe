"""Compares an old rater's changes with the ledger's: by match, and by player. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings.messages import Id, Milliseconds
from match_ratings_worker.rating import Number

from .player_records import InvalidLine, describe_line


def _a_number(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number")
    return value


_Number = Annotated[Number, BeforeValidator(_a_number), Field(ge=-1_000_000, le=1_000_000)]


class ReferenceChange(BaseModel):
    """One player's change by one match, by the old rater."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    match_id: Id
    player: Id
    before: _Number | None = None
    change: _Number
    after: _Number
    finished_at: Milliseconds | None = None


def read_reference_change(raw: bytes) -> ReferenceChange:
    """The change in a JSON object; raises InvalidLine."""
    try:
        return ReferenceChange.model_validate_json(raw)
    except ValidationError as error:
        raise InvalidLine(describe_line(error, raw)) from None


@dataclass(frozen=True, slots=True)
class RatedChange:
    """A change by one of the raters; figures that it does not give are None."""

    before: Number | None
    change: Number
    after: Number
    k: Number | None = None
    expected: float | None = None
    recent_games: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeDifference:
    """A change that differs between the raters."""

    match_id: str
    player: str
    #: The event's id in the ledger.
    ledger_id: str
    old: RatedChange
    new: RatedChange


@dataclass(frozen=True, slots=True)
class Drift:
    """A player whose ratings differ after the last match that both raters rated."""

    player: str
    old: Number
    new: Number
    #: new - old, in points.
    drift: Number
    #: The first match whose change differs; None when the ratings differed before it.
    since: str | None


@dataclass(slots=True)
class ComparisonResult:
    """The result of a comparison; counts are of changes, two per match."""

    equal: int = 0
    different: int = 0
    #: Of those, the ones with another change, not only another rating before it.
    change_differs: int = 0
    only_old: int = 0
    only_new: int = 0
    #: The largest differences, in descending order.
    largest: list[ChangeDifference] = field(default_factory=list)
    #: The first changes that only one rater has: match id and player.
    some_only_old: list[tuple[str, str]] = field(default_factory=list)
    some_only_new: list[tuple[str, str]] = field(default_factory=list)
    #: Players with a match that both raters rated.
    players: int = 0
    drifted: int = 0
    #: Mean over the drifted players, in points.
    mean_drift: float = 0.0
    #: The largest drifts, in descending order.
    drifts: list[Drift] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the raters agree on every change."""
        return not (self.different or self.only_old or self.only_new)

    def document(self) -> dict[str, Any]:
        """The result as JSON, with `same`."""
        return {"same": self.same, **asdict(self)}


class _Last(NamedTuple):
    old: Number
    new: Number
    since: str | None


class Comparison:
    """Takes all changes of the old rater, then the events of the ledger in their order."""

    def __init__(self, *, tolerance: float, top: int) -> None:
        """Figures that differ by at most `tolerance` points count as equal; keeps `top` differences."""
        self._tolerance, self._top = tolerance, top
        self._old: dict[tuple[str, str], tuple[Number | None, Number, Number]] = {}
        self._last: dict[str, _Last] = {}
        self._largest: list[tuple[float, float, int, ChangeDifference]] = []
        self._result = ComparisonResult()

    def add(self, old: ReferenceChange) -> None:
        """Takes a change of the old rater; raises InvalidLine for a duplicate."""
        key = old.match_id, old.player
        if key in self._old:
            raise InvalidLine(f"match_id: this player's change by {old.match_id} is there twice")
        self._old[key] = old.before, old.change, old.after

    def compare(self, event: RatingUpdated) -> None:
        """Compares an event of the ledger; only events with cause `match` count."""
        if event.cause is not Cause.MATCH or event.match_id is None:
            return
        for part in event.players:
            old = self._old.pop((event.match_id, part.player), None)
            if old is not None:
                self._compare_change(event, part, RatedChange(*old))
                continue
            self._result.only_new += 1
            if len(self._result.some_only_new) < self._top:
                self._result.some_only_new.append((event.match_id, part.player))

    def result(self) -> ComparisonResult:
        """The result; call it once, at the end."""
        result = self._result
        result.only_old = len(self._old)
        result.some_only_old = list(islice(self._old, self._top))
        result.largest = [item[-1] for item in sorted(self._largest, reverse=True)]
        result.players = len(self._last)
        drifts = list(self._drifts())
        result.drifted = len(drifts)
        result.mean_drift = sum(abs(drift.drift) for drift in drifts) / len(drifts) if drifts else 0.0
        result.drifts = heapq.nlargest(self._top, drifts, key=lambda drift: abs(drift.drift))
        return result

    def _compare_change(self, event: RatingUpdated, part: PlayerUpdate, old: RatedChange) -> None:
        result, known = self._result, self._last.get(part.player)
        by_change, by_after = abs(part.change - old.change), abs(part.after - old.after)
        since = known.since if known else None
        if by_change <= self._tolerance and by_after <= self._tolerance:
            result.equal += 1
        else:
            result.different += 1
            result.change_differs += by_change > self._tolerance
            if by_change > self._tolerance:
                since = since or event.match_id
            new = RatedChange(part.before, part.change, part.after, part.k, part.expected, part.recent_games)
            found = ChangeDifference(event.match_id or "", part.player, event.id or "", old, new)
            # Of equal differences the earlier ranks higher, as it may be the cause of the later.
            item = (by_change, by_after, -result.different, found)
            if len(self._largest) < self._top:
                heapq.heappush(self._largest, item)
            elif self._top:
                heapq.heappushpop(self._largest, item)
        self._last[part.player] = _Last(old.after, part.after, since)

    def _drifts(self) -> Iterator[Drift]:
        for player, last in self._last.items():
            if abs(last.new - last.old) > self._tolerance:
                yield Drift(player, last.old, last.new, last.new - last.old, last.since)
