"""Compares a ladder's settings with others, and names the risks of a change. Pure.

A rule change is safe while a ladder is in use when it is dated in the future: then every game is rated
by the rules in force when it finished, whoever rates it and whenever it arrives. Everything else changes
the rules for games that have finished: some of them are rated before the change and some after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.time_units import CLOCK_SKEW_MS

#: Before any game, in ms.
_EVER: Final = 0


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that is not the same; None where it does not exist."""

    setting: str
    adopted: Any
    here: Any


@dataclass(frozen=True, slots=True)
class LadderUsage:
    """How much a ladder is in use when its settings are changed."""

    #: The server's time in ms.
    now: int
    #: Matches and prizes rated so far.
    rated: int
    #: Messages in the inbox.
    waiting: int
    #: Players with games held for the end of a rating period.
    held: int


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with those inside tables by their dotted names: `rules.1.3.1`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": item for key, item in flat(value).items()}
        else:
            found[name] = value
    return found


def differences(system: str, settings: Mapping[str, Any], here: RatingSystem) -> list[SettingDifference]:
    """The differences between adopted settings and those of a configured system, field by field."""
    adopted, own = flat(settings), flat(here.model_dump(mode="json"))
    found = [SettingDifference("system", system, here.name)] if system != here.name else []
    for name in [*own, *(name for name in adopted if name not in own)]:
        if adopted.get(name) != own.get(name):
            found.append(SettingDifference(name, adopted.get(name), own.get(name)))
    return found


def risks(old: RatingSystem | None, new: RatingSystem, use: LadderUsage) -> list[str]:
    """One sentence for each way in which a change to `new` is unfair to games that have finished.

    None is there for a ladder that has rated nothing and for which nothing waits. `old` is None when
    the adopted settings cannot be read.
    """
    if not (use.rated or use.waiting or use.held):
        return []
    if old is None:
        return [
            "the adopted settings cannot be read here, so nobody can say which games would be rated by "
            "other rules than those in force when they finished"
        ]
    if old.name != new.name:
        return _other_system(old, new, use)
    found = _dates(old, new, use.now)
    dated = {*new.dated, *new.cosmetic}
    for name in type(new).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if name not in dated and before != after:
            found.append(
                f"{name}: the change from {before!r} to {after!r} has no date, so games that have finished "
                f"and are not rated yet would be rated by it too ({use.waiting} messages wait, {use.held} "
                "players have games held); and older changes do not come out again by the new settings"
            )
    return found


def _other_system(old: RatingSystem, new: RatingSystem, use: LadderUsage) -> list[str]:
    found = []
    if use.rated:
        lost = [name for name in old.state_fields if name not in new.state_fields]
        told = f"; what only {old.name} knows of them ({', '.join(lost)}) would be ignored" if lost else ""
        found.append(
            f"system: {use.rated} changes were made by {old.name}, and {new.name} would go on from those "
            f"ratings as if they were its own, with all else of each player as for a new one{told}"
        )
    if use.held:
        found.append(
            f"system: {use.held} players have games held for the end of a rating period, which {new.name} "
            "would never count; stop the workers and close them first: match-ratings close-period --early"
        )
    if use.waiting:
        found.append(
            f"system: {use.waiting} messages wait, and their games, which finished under {old.name}, would "
            f"be rated by {new.name}"
        )
    return found


def _dates(old: RatingSystem, new: RatingSystem, now: int) -> list[str]:
    """Whether another version of the rules would apply to games that may have been rated by now."""
    steps = {_EVER}
    latest = now + CLOCK_SKEW_MS  # so far ahead may a server's clock be, and its games' finish times
    for system in (old, new):
        for name in system.dated:
            steps.update(at for at in getattr(system, name).values() if at <= latest)
    for at in sorted(steps, reverse=True):
        before, after = old.rules_at(at), new.rules_at(at)
        if before == after:
            continue
        if at > now:
            minutes = CLOCK_SKEW_MS // 60_000
            return [
                f"{', '.join(new.dated)}: {_day(at)} is less than {minutes} minutes ahead, as a clock "
                f"may be: matches that finished then may have been rated by rules {before} already"
            ]
        since = f"since {_day(at)}" if at else "at any time"
        return [
            f"{', '.join(new.dated)}: games that finished {since} were rated by rules {before} and would "
            f"be rated by {after} from now on; of two games of the same day one would count by the old "
            "rules and one by the new, only because it arrived later"
        ]
    return []


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
