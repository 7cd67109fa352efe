"""The arq job `preview`: every outcome of a match, asked by a match server before the match starts."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from match_ratings.messages import Cube, Id, Ladder, Length, Milliseconds
from match_ratings_worker.calculators import preview_on_ladder
from match_ratings_worker.storage import LadderHandle
from match_ratings_worker.time_units import now_ms

from .job_requests import LadderRequest, RequestRefused, job_function


class PreviewRequest(LadderRequest):
    """The request of a match server before a match starts."""

    ladder: Ladder
    players: tuple[Id, Id]
    #: Only these values of the cube or match lengths; all by default.
    cubes: Annotated[tuple[Cube, ...], Field(min_length=1)] | None = None
    lengths: Annotated[tuple[Length, ...], Field(min_length=1, max_length=100)] | None = None
    #: When the match finishes, in ms; now by default.
    finished_at: Milliseconds | None = None


async def _preview(ladder: LadderHandle, request: PreviewRequest, job_id: str) -> dict[str, Any]:
    if request.players[0] == request.players[1]:
        raise RequestRefused("players: a match has two different players")
    choice = request.model_dump(include={"cubes", "lengths"}, exclude_none=True)
    return await preview_on_ladder(ladder, request.players, request.finished_at or now_ms(), **choice)


#: The arq function; it takes one object, the request, or its JSON text.
preview_job: Final[Any] = job_function(PreviewRequest, _preview, refusals=(ValueError,))
