"""What an operator sets: RATINGS_* variables and the ladders' TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis.asyncio import Redis

from match_ratings import stream_names as names
from match_ratings_worker.rating import SYSTEMS, BrokenSystem, RatingSystem
from match_ratings_worker.storage.ladder import LadderHandle
from match_ratings_worker.storage.redis_url import Address
from match_ratings_worker.text import quote
from match_ratings_worker.units import DAY_MS

__all__ = ["ConfigError", "Ladder", "Settings", "ladder_handle", "load_ladders", "load_settings"]


class ConfigError(Exception):
    """A setting is wrong; the text is one sentence that names it, its value and what is allowed."""


class Settings(BaseSettings):
    """The RATINGS_* environment variables."""

    model_config = SettingsConfigDict(env_prefix="RATINGS_", frozen=True, extra="ignore")

    #: Where Redis or Valkey is: one server, a cluster, or behind Sentinels.
    redis_url: str = "redis://127.0.0.1:6379/0"
    #: Where arq's own queue is, when it is another Redis; arq does not run on a cluster.
    arq_url: str | None = None
    #: A TOML file with the ladders; without it there is one, backgammon.
    config: Path | None = None
    #: Messages that a worker claims in one step.
    batch: Annotated[int, Field(ge=1, le=2000)] = 256
    #: Messages committed in one script call.
    chunk: Annotated[int, Field(ge=1, le=256)] = 64
    #: Claims after which a message is a dead letter.
    max_attempts: Annotated[int, Field(ge=3, le=1000)] = 10
    #: How old a match may be, and how long receipts are kept, in days.
    horizon_days: Annotated[float, Field(gt=0, le=365)] = 14
    #: After how many seconds of silence a worker counts as gone.
    idle_seconds: Annotated[float, Field(ge=1, le=86_400)] = 10
    #: How long events are kept in the ledger, in days; 0 for ever.
    keep_events_days: Annotated[float, Field(ge=0)] = 90
    #: A SQLite file into which events are copied before they are trimmed.
    archive: Path | None = None
    #: Whether to rate beside another rater, into keys of its own, without being authoritative.
    shadow: bool = False
    #: Where each worker serves its figures to Prometheus; nowhere when not set. With --processes the
    #: second process takes the next port, and so on.
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    #: The address that the metrics are served on.
    metrics_host: str = "127.0.0.1"
    #: Which messages are logged.
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: "auto": JSON where standard error is no terminal.
    log_format: Literal["auto", "json", "console"] = "auto"

    @field_validator("redis_url", "arq_url")
    @classmethod
    def _can_be_read(cls, url: str | None) -> str | None:
        if url is not None:
            Address.parse(url)
        return url

    @model_validator(mode="after")
    def _arq_is_on_no_cluster(self) -> Self:
        if Address.parse(self.queue_url).kind == "cluster":
            msg = "RATINGS_ARQ_URL: it must name a plain Redis, since arq's queue cannot be on a cluster"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _events_outlive_receipts(self) -> Self:
        if 0 < self.keep_events_days < self.horizon_days:
            msg = (
                f"RATINGS_KEEP_EVENTS_DAYS: {self.keep_events_days:g} is not allowed: a match can be voided "
                f"for RATINGS_HORIZON_DAYS ({self.horizon_days:g}), so it must be that many or 0 (for ever)"
            )
            raise ValueError(msg)
        return self

    @property
    def queue_url(self) -> str:
        """Where arq's queue is."""
        return self.arq_url or self.redis_url

    @property
    def horizon_ms(self) -> int:
        """The horizon in ms."""
        return int(self.horizon_days * DAY_MS)

    @property
    def keep_events_ms(self) -> int:
        """How long events are kept in the ledger, in ms; 0 for ever."""
        return int(self.keep_events_days * DAY_MS)


class Ladder(BaseModel):
    """One ladder: its name and the rating system with the ladder's settings for it."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    system: RatingSystem


def ladder_handle(redis: Redis, settings: Settings, ladder: Ladder) -> LadderHandle:
    """A configured ladder in the Redis of `redis`, a client that returns bytes."""
    return LadderHandle(
        redis,
        ladder.name,
        ladder.system,
        horizon_ms=settings.horizon_ms,
        idle_ms=int(settings.idle_seconds * 1000),
        archive=settings.archive,
        shadow=settings.shadow,
    )


def load_settings() -> Settings:
    """The settings of this process's environment; raises ConfigError."""
    try:
        return Settings()
    except ValidationError as error:
        raise ConfigError(_first(error, lambda path: f"RATINGS_{path[0].upper()}")) from None


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
        names.scope(name)
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
        raise ConfigError(_first(error, lambda path: ".".join(("ladders", name, *path)))) from None


def _first(error: ValidationError, name: Any) -> str:
    """The first problem as one sentence; a value that may be a secret is not shown."""
    item = error.errors(include_url=False)[0]
    text = item["msg"].removeprefix("Value error, ")
    if not item["loc"]:  # about several settings together: the text names them, a value may be a secret
        return text
    path = [str(part) for part in item["loc"]]
    if item["type"] == "extra_forbidden":
        return f"{name(path)}: there is no setting of this name"
    shown = "the value" if "url" in path[0] else quote(item["input"])
    return f"{name(path)}: {shown} is not allowed: {text[:1].lower()}{text[1:]}"
