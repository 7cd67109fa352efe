"""The arq job `preview`: every outcome of a match, asked by a match server before the match starts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from match_ratings.messages import Cube, Id, Ladder, Length, Milliseconds
from match_ratings_worker.calculators import preview_on_ladder
from match_ratings_worker.environment import ladder_handle
from match_ratings_worker.queries import Unreadable
from match_ratings_worker.runtime import WorkerContext
from match_ratings_worker.text import quote
from match_ratings_worker.units import now_ms

__all__ = ["PreviewRequest", "preview_job"]


class PreviewRequest(BaseModel):
    """The request of a match server before a match starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ladder: Ladder
    players: tuple[Id, Id]
    #: Only these values of the cube or match lengths; all by default.
    cubes: Annotated[tuple[Cube, ...], Field(min_length=1)] | None = None
    lengths: Annotated[tuple[Length, ...], Field(min_length=1, max_length=100)] | None = None
    #: When the match finishes, in ms; now by default.
    finished_at: Milliseconds | None = None


async def preview_job(ctx: dict[str, Any], payload: Any = None) -> dict[str, Any]:
    """The arq job `preview`: every outcome of a match, or what is wrong with the request, as `error`."""
    context: WorkerContext = ctx["worker"]
    try:
        wanted = (
            PreviewRequest.model_validate_json(payload)
            if isinstance(payload, str)
            else PreviewRequest(**payload or {})
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
    ladder = ladder_handle(context.redis, context.settings, context.ladders[wanted.ladder])
    try:
        return await preview_on_ladder(ladder, wanted.players, at, **choice)
    except (ValueError, Unreadable) as error:
        return {"error": str(error)}
