"""What the commands share: settings, the ladder, ids and numbers, and how a command ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from match_ratings_worker.environment import Settings
    from match_ratings_worker.ladders_file import Ladder
    from match_ratings_worker.storage.keys import Keys

__all__ = [
    "NOT_FOUND",
    "NOT_WRITTEN",
    "UNAVAILABLE",
    "WRONG_INPUT",
    "CommandError",
    "JsonOption",
    "LadderOption",
    "Installation",
    "checked_id",
    "load_installation",
    "whole_number",
]

NOT_FOUND: Final = ExitCode.FAILED
NOT_WRITTEN: Final = ExitCode.FAILED
WRONG_INPUT: Final = ExitCode.WRONG_INPUT
UNAVAILABLE: Final = ExitCode.UNAVAILABLE

LadderOption = Annotated[
    str | None,
    typer.Option("--ladder", metavar="NAME", help="Which ladder; needed where several are configured."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON: one object on one line, lists as one such line for each.")
]


@dataclass(frozen=True)
class Installation:
    """The settings and ladders of this process's environment."""

    settings: Settings
    ladders: dict[str, Ladder]

    def ladder(self, name: str | None) -> Ladder:
        """The ladder of this name; without one, the only ladder that is configured."""

        known = ", ".join(self.ladders)
        if name is not None:
            if name not in self.ladders:
                text = f"--ladder: {quote(name)} is not configured; use one of {known} (RATINGS_CONFIG)"
                raise CommandError(text, WRONG_INPUT)
            return self.ladders[name]
        if len(self.ladders) > 1:
            raise CommandError(
                f"--ladder: it is required with several ladders; use one of {known}", WRONG_INPUT
            )
        return next(iter(self.ladders.values()))

    def named(self, name: str | None) -> tuple[Ladder, Keys]:
        """The same, with the ladder's keys, or with its shadow's if RATINGS_SHADOW is set."""
        from match_ratings_worker.storage.keys import Keys

        ladder = self.ladder(name)
        return ladder, Keys(ladder.name, shadow=self.settings.shadow)


def whole_number(name: str, low: int, high: int | None = None) -> Callable[[object], int]:
    """Reads an option's number or its default; what the library itself says does not name the value."""

    def parse(given: object) -> int:

        text = str(given)
        number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
        if number is None or number < low or (high is not None and number > high):
            allowed = f"from {low} to {high}" if high is not None else f"from {low}"
            raise CommandError(
                f"{name}: {quote(text)} is not allowed; use a whole number {allowed}", WRONG_INPUT
            )
        return number

    return parse


def load_installation() -> Installation:
    """Reads RATINGS_* and the ladders' file."""
    from match_ratings_worker.environment import load_settings
    from match_ratings_worker.ladders_file import ConfigError, load_ladders

    try:
        settings = load_settings()
        return Installation(settings, load_ladders(settings.config))
    except ConfigError as error:
        raise CommandError(str(error), WRONG_INPUT) from None


def checked_id(name: str, value: str) -> str:
    """An id from the command line, if a message could have it."""
    from pydantic import TypeAdapter, ValidationError

    from match_ratings.messages import Id

    try:
        return TypeAdapter(Id).validate_python(value)
    except ValidationError:
        allowed = "1-128 characters without control characters are"
        raise CommandError(f"{name}: {quote(value)} is not allowed; {allowed}", WRONG_INPUT) from None
