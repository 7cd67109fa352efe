"""Recomputes an event from its own figures. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from match_ratings import Cause, PlayerUpdate, RatingUpdated
from match_ratings_worker.rating import InvalidGame, Number, RatingSystem, Side, State

#: Errors of computing from figures that are missing or inconsistent.
FAULTS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Recomputed(NamedTuple):
    """A recomputed event."""

    #: Its differences from the event, one sentence each.
    differences: list[str]
    #: For each player of a game or closed period: the system's own fields before it, by the event's
    #: figures, and the result. Empty for other causes.
    before: list[tuple[float, ...]]
    sides: list[Side]


_NOTHING = Recomputed([], [], [])


def recompute_event(event: RatingUpdated, system: RatingSystem) -> Recomputed:
    """Recomputes an event; of voids and imports only the sums, as they follow from other data."""
    recompute = _CAUSES.get(event.cause)
    if recompute is None:
        return _NOTHING
    try:
        return recompute(event, system)
    except FAULTS as error:
        text = f"it cannot be recomputed from its figures: {type(error).__name__}: {error}"
        return Recomputed([text], [], [])


def _match(event: RatingUpdated, system: RatingSystem) -> Recomputed:
    outcome = system.recompute(event)
    found: list[str] = []
    figures: dict[str, Number] = dict(outcome.figures)
    if "length" in event.figures:
        figures.setdefault("length", event.figures["length"])
    in_force = system.rules_at(event.finished_at)
    _compare(found, "rules", event.rules, outcome.rules)
    if event.rules == outcome.rules != in_force:
        found.append(f"rules: {event.rules} were applied, {in_force} were in force when it finished")
    _compare(found, "coefficient", event.coefficient, outcome.coefficient)
    _compare(found, "figures", event.figures, figures)
    for part, side in zip(event.players, outcome.sides, strict=True):
        _compare_side(found, part, side)
    before = [system.state_before(part).extra if system.state_fields else () for part in event.players]
    return Recomputed(found, before, list(outcome.sides))


def _period(event: RatingUpdated, system: RatingSystem) -> Recomputed:
    found: list[str] = []
    (part,) = event.players
    before, side = system.state_before(part), system.recompute_close(part)
    _compare_side(found, part, side)
    _compare(found, "end of the period", event.finished_at, system.closes_at(before))
    _compare(found, "rules", event.rules, system.rules_at(event.finished_at - 1))
    return Recomputed(found, [before.extra], [side])


def _prize(event: RatingUpdated, system: RatingSystem) -> Recomputed:
    found: list[str] = []
    initial = system.initial()
    for part in event.players:
        # The points are whole; the change of a decimal rating may be off by its last digit.
        after = system.award(initial._replace(rating=part.before), round(part.change))
        _compare(found, f"after of {part.player}", part.after, after.rating)
        _compare(found, f"change of {part.player}", part.change, after.rating - part.before)
    return Recomputed(found, [], [])


def _sums(event: RatingUpdated, system: RatingSystem) -> Recomputed:
    found: list[str] = []
    for part in event.players:
        _compare(found, f"change of {part.player}", part.change, part.after - part.before)
    return Recomputed(found, [], [])


_CAUSES: dict[Cause, Callable[[RatingUpdated, RatingSystem], Recomputed]] = {
    Cause.MATCH: _match,
    Cause.PERIOD: _period,
    Cause.PRIZE: _prize,
    Cause.VOID: _sums,
    Cause.IMPORT: _sums,
}


def compare_void(
    void: RatingUpdated, match: RatingUpdated, system: RatingSystem, before: list[State | None]
) -> list[str]:
    """The differences of a void from the inverse of its match, one sentence each.

    `before` has the states of the void's players before it, None for those not known.
    """
    played = {part.player: part for part in match.players}
    if played.keys() != {part.player for part in void.players}:
        return [f"its players are not those of the match: {', '.join(played)}"]
    found: list[str] = []
    _compare(found, "finished_at", void.finished_at, match.finished_at)
    _compare(found, "rules", void.rules, match.rules)
    for part, state in zip(void.players, before, strict=True):
        if state is None:
            continue
        try:
            after = system.void(state, played[part.player])
        except InvalidGame as error:
            found.append(f"by the rules it cannot be voided: {error}")
            continue
        except FAULTS as error:
            found.append(f"it cannot be recomputed: {type(error).__name__}: {error}")
            continue
        _compare(found, f"after of {part.player}", part.after, after.rating)
        for name, old, new in zip(system.state_fields, state.extra, after.extra, strict=True):
            _compare(found, f"{name} of {part.player}", part.figures.get(f"{name}_after", old), new)
    return found


def _compare_side(found: list[str], part: PlayerUpdate, side: Side) -> None:
    if (part.change, part.after, part.expected, part.k) != (
        side.change,
        side.rating,
        side.expected,
        side.k,
    ) or part.figures != side.figures:
        _compare(found, f"change of {part.player}", part.change, side.change)
        _compare(found, f"after of {part.player}", part.after, side.rating)
        _compare(found, f"expected of {part.player}", part.expected, side.expected)
        _compare(found, f"k of {part.player}", part.k, side.k)
        names = part.figures.keys() | side.figures.keys()
        for name in sorted(names):
            _compare(found, f"{name} of {part.player}", part.figures.get(name), side.figures.get(name))


def _compare(found: list[str], name: str, given: Any, recomputed: Any) -> None:
    if given != recomputed:
        found.append(f"{name}: {given} in the event, {recomputed} recomputed")
