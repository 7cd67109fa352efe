"""The ladders of an installation: the TOML file that RATINGS_CONFIG names."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from match_ratings.stream_names import scope
from match_ratings_worker.rating import SYSTEMS, BrokenSystem, RatingSystem
from match_ratings_worker.safe_text import describe_error, quote


class ConfigError(Exception):
    """Raised for a wrong setting; the text is one sentence with its name, value and what is allowed."""


class Ladder(BaseModel):
    """A configured ladder: its name, and its rating system with the ladder's settings."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    system: RatingSystem


def load_ladders(config: Path | None) -> dict[str, Ladder]:
    """The ladders of a TOML file, by name; without a file the one ladder `backgammon`.

    Raises ConfigError.
    """
    if config is None:
        return {"backgammon": Ladder(name="backgammon", system=SYSTEMS["backgammon"]())}
    try:
        data = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"RATINGS_CONFIG: {quote(str(config), 200)} cannot be read: {error.strerror}"
        raise ConfigError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"RATINGS_CONFIG: {quote(str(config), 200)} is not TOML: {error}"
        raise ConfigError(msg) from None
    unknown = sorted(set(data) - {"ladders"})
    if unknown:
        msg = f"{quote(unknown[0])} in the configuration is not known; it has tables named [ladders.<name>]"
        raise ConfigError(msg)
    tables = data.get("ladders", {})
    if not isinstance(tables, dict) or not tables:
        msg = "the configuration names no ladder; it needs at least one table [ladders.<name>]"
        raise ConfigError(msg)
    return {name: _ladder(name, table) for name, table in tables.items()}


def _ladder(name: str, table: Any) -> Ladder:
    try:
        scope(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(table, dict):
        msg = f"ladders.{name}: {quote(table)} is not allowed; it must be a table"
        raise ConfigError(msg)
    table = dict(table)
    system = table.pop("system", "backgammon")
    if not isinstance(system, str) or system not in SYSTEMS:
        msg = f"ladders.{name}.system: {quote(system)} is not allowed; use one of {', '.join(SYSTEMS)}"
        raise ConfigError(msg)
    try:
        return Ladder(name=name, system=SYSTEMS[system](**table))
    except BrokenSystem as error:
        raise ConfigError(f"ladders.{name}.system: {error}") from None
    except ValidationError as error:
        hints = {"extra_forbidden": "there is no setting of this name"}
        text = describe_error(error, whole="", name=lambda path: f"ladders.{name}.{path}", hints=hints)
        raise ConfigError(text) from None
