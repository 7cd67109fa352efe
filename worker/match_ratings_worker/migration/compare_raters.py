"""Compares what two raters made of the same matches: change by change, and player by player. Pure."""

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
from match_ratings_worker.migration.player_records import InvalidLine, describe_line
from match_ratings_worker.rating import Number

__all__ = ["Comparison", "Difference", "Drift", "Old", "Result", "Side", "read_event", "read_old"]


def _a_number(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number")
    return value


_Number = Annotated[Number, BeforeValidator(_a_number), Field(ge=-1_000_000, le=1_000_000)]


class Old(BaseModel):
    """One player's change by one match, as the other rater has it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    match_id: Id
    player: Id
    before: _Number | None = None
    change: _Number
    after: _Number
    finished_at: Milliseconds | None = None


def read_old(raw: bytes) -> Old:
    """The change in a JSON object; raises WrongLine."""
    try:
        return Old.model_validate_json(raw)
    except ValidationError as error:
        raise InvalidLine(describe_line(error, raw)) from None


def read_event(ledger_id: str, raw: bytes) -> RatingUpdated | None:
    """An event of the ledger; None for an entry that is none."""
    try:
        return RatingUpdated.model_validate_json(raw).model_copy(update={"id": ledger_id})
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Side:
    """A change as one of the raters has it; what it does not tell is None."""

    before: Number | None
    change: Number
    after: Number
    k: Number | None = None
    expected: float | None = None
    recent_games: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A change that the raters have otherwise."""

    match_id: str
    player: str
    #: The event's place in the ledger.
    ledger_id: str
    old: Side
    new: Side


@dataclass(frozen=True, slots=True)
class Drift:
    """A player whose ratings have come apart, after the last match that both have rated."""

    player: str
    old: Number
    new: Number
    #: new - old, in points.
    drift: Number
    #: The first match whose change the raters have otherwise; None when they came apart before.
    since: str | None


@dataclass(slots=True)
class Result:
    """How two raters compare; counts are of changes, two to a match."""

    equal: int = 0
    different: int = 0
    #: Those of the different ones whose change itself differs, not only the rating it was made to.
    change_differs: int = 0
    only_old: int = 0
    only_new: int = 0
    #: The largest differences, the largest first.
    largest: list[Difference] = field(default_factory=list)
    #: Some of the changes that only one rater has: match id and player.
    some_only_old: list[tuple[str, str]] = field(default_factory=list)
    some_only_new: list[tuple[str, str]] = field(default_factory=list)
    #: Players with a match that both have rated.
    players: int = 0
    drifted: int = 0
    #: Over those who drifted, in points.
    mean_drift: float = 0.0
    #: The largest drifts, the largest first.
    drifts: list[Drift] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the raters agree in everything."""
        return not (self.different or self.only_old or self.only_new)

    def document(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {"same": self.same, **asdict(self)}


class _Last(NamedTuple):
    old: Number
    new: Number
    since: str | None


class Comparison:
    """Takes the old rater's changes first, then the events of the ledger in their order."""

    def __init__(self, *, tolerance: float, top: int) -> None:
        """Figures closer than `tolerance` points count as equal; `top` differences are kept."""
        self._tolerance, self._top = tolerance, top
        self._old: dict[tuple[str, str], tuple[Number | None, Number, Number]] = {}
        self._last: dict[str, _Last] = {}
        self._largest: list[tuple[float, float, int, Difference]] = []
        self._result = Result()

    def add(self, old: Old) -> None:
        """Takes a change of the old rater; raises WrongLine when it is there already."""
        key = old.match_id, old.player
        if key in self._old:
            raise InvalidLine(f"match_id: this player's change by {old.match_id} is there twice")
        self._old[key] = old.before, old.change, old.after

    def meet(self, event: RatingUpdated) -> None:
        """Compares an event of the ledger; only those of matches count."""
        if event.cause is not Cause.MATCH or event.match_id is None:
            return
        for part in event.players:
            old = self._old.pop((event.match_id, part.player), None)
            if old is not None:
                self._compare(event, part, Side(*old))
                continue
            self._result.only_new += 1
            if len(self._result.some_only_new) < self._top:
                self._result.some_only_new.append((event.match_id, part.player))

    def result(self) -> Result:
        """The comparison; call it once, at the end."""
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

    def _compare(self, event: RatingUpdated, part: PlayerUpdate, old: Side) -> None:
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
            new = Side(part.before, part.change, part.after, part.k, part.expected, part.recent_games)
            found = Difference(event.match_id or "", part.player, event.id or "", old, new)
            # Of equal ones the earlier counts as the larger: the later may only follow from it.
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
