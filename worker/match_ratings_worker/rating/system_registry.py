"""Every rating system by name: those of this package, and those that other distributions bring.

A distribution registers a system as an entry point of the group `match_ratings.systems`, under the
system's own name. Nothing is looked for until a name that this package does not have is asked for, or
all names are, and nothing is imported but the system that is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import metadata
from typing import Final

from .rating_system import STATE_FIELDS, RatingSystem

#: The entry points' group.
GROUP: Final = "match_ratings.systems"


class BrokenSystem(LookupError):
    """A registered system that cannot be used; the text is one sentence that says whose and why."""


class Systems(Mapping[str, type[RatingSystem]]):
    """A mapping of a system's name to its class; asking for a broken one raises BrokenSystem."""

    def __init__(self, *own: type[RatingSystem]) -> None:
        self._loaded = {system.name: system for system in own}
        self._own = tuple(self._loaded)

    def __getitem__(self, name: str) -> type[RatingSystem]:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._others[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in self._others if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._others

    @cached_property
    def _others(self) -> dict[str, list[metadata.EntryPoint]]:
        found: dict[str, list[metadata.EntryPoint]] = {}
        for point in metadata.entry_points(group=GROUP):
            if point not in found.setdefault(point.name, []):  # the same path may be searched twice
                found[point.name].append(point)
        return dict(sorted(found.items()))


def _load(name: str, points: list[metadata.EntryPoint]) -> type[RatingSystem]:
    brought_by = ", ".join(sorted({point.dist.name if point.dist else "?" for point in points}))
    about = f"the rating system {name}, which the package {brought_by} brings"
    if len(points) > 1:
        msg = f"the rating system {name} is brought by more than one package: {brought_by}"
        raise BrokenSystem(msg)
    try:
        system = points[0].load()
    except Exception as error:  # whatever somebody else's module does while it is imported
        msg = f"{about}, cannot be loaded: {type(error).__name__}: {_line(error)}"
        raise BrokenSystem(msg) from error
    if fault := _fault(name, system):
        msg = f"{about}, cannot be used: {fault}"
        raise BrokenSystem(msg)
    assert isinstance(system, type) and issubclass(system, RatingSystem)
    return system


def _fault(name: str, system: object) -> str | None:
    if not (isinstance(system, type) and issubclass(system, RatingSystem)):
        return "it is not a class that inherits from match_ratings_worker.rating.RatingSystem"
    if getattr(system, "name", None) != name:
        return f"the class calls itself {getattr(system, 'name', None)!r}; use the entry point's name"
    if inspect.isabstract(system):
        return f"it lacks {', '.join(sorted(system.__abstractmethods__))}"
    names = system.state_fields
    if len(set(names)) != len(names) or set(STATE_FIELDS).intersection(names):
        return f"state_fields: {names!r} is not allowed; names differ from each other and from {_names()}"
    try:
        state = system().initial()
    except Exception as error:
        return f"with its default settings it raises {type(error).__name__}: {_line(error)}"
    if len(state.extra) != len(names):
        return f"initial() gives {len(state.extra)} values for the {len(names)} names in state_fields"
    return None


def _names() -> str:
    return ", ".join(sorted(STATE_FIELDS))


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]
