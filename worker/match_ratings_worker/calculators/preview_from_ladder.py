"""What a match between two players of a ladder would change, from what Redis holds of them now.

It is computed by the ladder's adopted settings, whatever this process is configured with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from redis.asyncio import Redis

from match_ratings.messages import Cube, Id, Ladder, Length, Milliseconds
from match_ratings_worker.calculators.match_outcomes import preview
from match_ratings_worker.ladder_settings.adopted_settings import system_of
from match_ratings_worker.queries import Unreadable, standing
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.text import quote
from match_ratings_worker.units import now_ms

if TYPE_CHECKING:
    from match_ratings_worker.runtime.worker_context import WorkerContext

__all__ = ["Request", "forecast", "players", "preview_job"]


class Request(BaseModel):
    """What a match server asks before a match starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ladder: Ladder
    players: tuple[Id, Id]
    #: Only these values of the cube or match lengths; all by default.
    cubes: Annotated[tuple[Cube, ...], Field(min_length=1)] | None = None
    lengths: Annotated[tuple[Length, ...], Field(min_length=1, max_length=100)] | None = None
    #: When the match is taken to finish; now by default.
    finished_at: Milliseconds | None = None


async def players(
    redis: Redis, keys: Keys, configured: RatingSystem, names: Sequence[str], at: int
) -> tuple[RatingSystem, list[tuple[State, int]], list[str]]:
    """The ladder's system, each player's state and games in the 7 days before `at` (ms), and who is new.

    Raises RedisError, and queries.Unreadable for a state that cannot be read.
    """
    system = await system_of(redis, keys, configured)
    found, new = [], []
    for name in names:
        known = await standing(redis, keys, system, name, at)
        if known is None:
            new.append(name)
            found.append((system.initial(), 0))
            continue
        extra = tuple([known.figures[field] for field in system.state_fields])
        found.append((State(known.rating, known.games, known.last_game or 0, extra), known.recent_games))
    return system, found, new


async def forecast(
    redis: Redis, keys: Keys, configured: RatingSystem, names: tuple[str, str], at: int, **choice: Any
) -> dict[str, Any]:
    """Every outcome of a match between two players that finishes `at` a time in ms, ready for JSON.

    `choice` may narrow `cubes` and `lengths`. Raises ValueError for what is not allowed.
    """
    system, ((first, one), (second, two)), new = await players(redis, keys, configured, names, at)
    rows = preview(system, first, second, at=at, recent_games=(one, two), **choice)
    return {
        "system": system.name,
        "rules": system.rules_at(at),
        "players": list(names),
        "new": new,
        "outcomes": [asdict(row) for row in rows],
    }


async def preview_job(ctx: dict[str, Any], payload: Any = None) -> dict[str, Any]:
    """The arq job `preview`: every outcome of a match, or what is wrong with the request, as `error`."""
    context: WorkerContext = ctx["worker"]
    try:
        wanted = (
            Request.model_validate_json(payload) if isinstance(payload, str) else Request(**payload or {})
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "payload"
        given = "it is required" if fault["type"] == "missing" else f"{quote(fault['input'])}: {fault['msg']}"
        return {"error": f"{where}: {given}"}
    except TypeError:
        return {"error": f"payload: {quote(payload)} is not allowed; use an object with ladder and players"}
    if wanted.ladder not in context.ladders:
        known = ", ".join(context.ladders)
        return {"error": f"ladder: {quote(wanted.ladder)} is rated by no worker here; known are {known}"}
    if wanted.players[0] == wanted.players[1]:
        return {"error": "players: a match has two different players"}
    choice = {name: value for name in ("cubes", "lengths") if (value := getattr(wanted, name)) is not None}
    at = wanted.finished_at or now_ms()
    ladder = context.ladders[wanted.ladder]
    try:
        return await forecast(
            context.redis, context.keys(ladder.name), ladder.system, wanted.players, at, **choice
        )
    except (ValueError, Unreadable) as error:
        return {"error": str(error)}
