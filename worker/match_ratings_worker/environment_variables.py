"""The operator's settings: the RATINGS_* environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis.asyncio import Redis

from match_ratings_worker.ladders_file import ConfigError, Ladder
from match_ratings_worker.safe_text import describe_error
from match_ratings_worker.storage import Address, LadderHandle
from match_ratings_worker.time_units import DAY_MS


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
    #: Seconds of silence after which a worker counts as gone.
    idle_seconds: Annotated[float, Field(ge=1, le=86_400)] = 10
    #: How long events are kept in the ledger, in days; 0 for ever.
    keep_events_days: Annotated[float, Field(ge=0)] = 90
    #: A SQLite file into which events are copied before they are trimmed.
    archive: Path | None = None
    #: Rate beside another rater, into keys of its own, without being authoritative.
    shadow: bool = False
    #: The port on which each worker serves its metrics to Prometheus; none when not set. With --processes
    #: the second process takes the next port, and so on.
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    #: The address that the metrics are served on.
    metrics_host: str = "127.0.0.1"
    #: The lowest level of log lines that are written.
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
        """RATINGS_ARQ_URL, or RATINGS_REDIS_URL where it is not set."""
        return self.arq_url or self.redis_url

    @property
    def horizon_ms(self) -> int:
        """How old a match may be, in ms."""
        return int(self.horizon_days * DAY_MS)

    @property
    def keep_events_ms(self) -> int:
        """How long events are kept in the ledger, in ms; 0 for ever."""
        return int(self.keep_events_days * DAY_MS)


def ladder_handle(redis: Redis, settings: Settings, ladder: Ladder) -> LadderHandle:
    """A handle on a configured ladder; `redis` must return bytes (decode_responses off)."""
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
    """The settings in this process's environment. Raises ConfigError."""
    try:
        return Settings()
    except ValidationError as error:
        text = describe_error(
            error, whole="", name=lambda path: f"RATINGS_{path.upper()}", hidden=("redis_url", "arq_url")
        )
        raise ConfigError(text) from None
