"""The settings and ladders of this process's environment, and the options that choose a ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from match_ratings_worker.environment_variables import Settings, load_settings
from match_ratings_worker.ladders_file import ConfigError, Ladder, load_ladders
from match_ratings_worker.safe_text import quote

from .exit_codes import CommandError, ExitCode

LadderOption = Annotated[
    str | None,
    typer.Option("--ladder", metavar="NAME", help="The ladder; required if several are configured."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON: one object on one line, or one line for each item.")
]


@dataclass(frozen=True)
class Installation:
    """The settings and ladders of this process's environment."""

    settings: Settings
    #: By name.
    ladders: dict[str, Ladder]

    def ladder(self, name: str | None) -> Ladder:
        """The ladder of this name; without a name, the only one that is configured."""
        known = ", ".join(self.ladders)
        if name is not None:
            if name not in self.ladders:
                text = f"--ladder: {quote(name)} is not configured; use one of {known} (RATINGS_CONFIG)"
                raise CommandError(text, ExitCode.WRONG_INPUT)
            return self.ladders[name]
        if len(self.ladders) > 1:
            text = f"--ladder: it is required with several ladders; use one of {known}"
            raise CommandError(text, ExitCode.WRONG_INPUT)
        return next(iter(self.ladders.values()))


def load_installation() -> Installation:
    """Read RATINGS_* and the ladders' file; what is wrong with them is a CommandError."""
    try:
        settings = load_settings()
        return Installation(settings, load_ladders(settings.config))
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
