"""The void command as arq jobs, for servers: one JSON object in, one JSON object out.

    job = await arq.enqueue_job("void_match", {"match_id": "m-1", "why": "a bot", "who": "eve"},
                                _queue_name="ratings:jobs")
    await job.result()  # {"ok": true, "ladder": "backgammon", "match_id": "m-1", "outcome": "voided", ...}

`ok` says that the request could be carried out; `outcome` is that of `match-ratings void --json`. What
is wrong with the request is said in the answer, `{"ok": false, "error": ...}`; it is kept for a day.
A job that is run again, because its worker was killed, finds out what it had done already.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from match_ratings.messages import Id, Milliseconds
from match_ratings_worker import voids
from match_ratings_worker.queries import Unreadable
from match_ratings_worker.storage.connection import CONNECTION_ERRORS
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from match_ratings_worker.ladders_file import Ladder
    from match_ratings_worker.runtime.worker_context import WorkerContext

__all__ = ["VOID_JOBS"]

log = structlog.get_logger(__name__)

#: Matches that an answer lists one by one, at most; the sums are of all.
_LISTED: Final = 1000

#: Together they fit into a message's reason.
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=90)]


class Refused(Exception):
    """What was asked for cannot be done; the text is one sentence."""


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Needed where several ladders are configured.
    ladder: str | None = None
    why: Words
    who: Name
    #: Seconds to wait for while nothing happens.
    patience: Annotated[float, Field(ge=0, le=3600)] = 30.0

    @property
    def reason(self) -> str:
        """As the ledger keeps it."""
        return f"{self.why} ({self.who})"


class _OneMatch(_Request):
    match_id: Id


class _OfPlayer(_Request):
    player: Id
    #: Matches that finished from then on, and before then.
    since: Milliseconds
    until: Milliseconds | None = None
    dry_run: bool = False


async def _void_match(desk: WorkerContext, request: _OneMatch, ladder: Ladder) -> dict[str, Any]:
    keys = desk.keys(ladder.name)
    outcome = await voids.find(desk.redis, keys, request.match_id)
    if outcome.verdict is voids.Verdict.RATED and outcome.match is not None:
        match = outcome.match
        refused = await voids.refusals(desk.redis, keys, ladder.system, [match])
        if request.match_id in refused:
            detail = refused[request.match_id]
            outcome = voids.Outcome(request.match_id, voids.Verdict.REFUSED, match, detail=detail)
        else:
            (outcome,) = await voids.void_matches(
                desk.redis, keys, [match], request.reason, patience=request.patience
            )
    return outcome.document()


async def _void_player(desk: WorkerContext, request: _OfPlayer, ladder: Ladder) -> dict[str, Any]:
    keys = desk.keys(ladder.name)
    plan = await voids.plan_for(desk.redis, keys, ladder.system, request.player, request.since, request.until)
    if plan is None:
        raise Refused(f"player: {quote(request.player)} is not known on ladder {ladder.name}")
    if request.dry_run:
        done = [voids.Outcome(match.match_id or "", voids.Verdict.RATED, match) for match in plan.matches]
        refunds = voids.Refunds(request.player, plan.matches, planned=True)
    else:
        done = await voids.void_matches(
            desk.redis, keys, plan.matches, request.reason, patience=request.patience
        )
        taken = [outcome.void for outcome in done if outcome.void is not None]
        refunds = voids.Refunds(request.player, taken)
    done += plan.refused
    return {
        "player": request.player,
        "dry_run": request.dry_run,
        "outcomes": dict(Counter(outcome.verdict.value for outcome in done)),
        **refunds.document(),
        "matches": [outcome.document() for outcome in done[:_LISTED]],
        "all_listed": len(done) <= _LISTED,
    }


R = TypeVar("R", bound=_Request)


def _job(
    model: type[R], act: Callable[[WorkerContext, R, Ladder], Awaitable[dict[str, Any]]]
) -> Callable[[dict[str, Any], Any], Awaitable[dict[str, Any]]]:
    """An arq function that reads its request, waits for a lost Redis, and answers whatever happens."""

    async def answer(ctx: dict[str, Any], request: Any) -> dict[str, Any]:
        desk: WorkerContext = ctx["desk"]
        try:
            read = model.model_validate_json(orjson.dumps(request))
            ladder = _ladder(desk, read.ladder)
            pause = 0.05
            while True:
                try:
                    return {"ok": True, "ladder": ladder.name, **await act(desk, read, ladder)}
                except CONNECTION_ERRORS as error:
                    log.warning("Redis does not answer; the job waits", error=quote(str(error), 200))
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 2.0)
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            where = ".".join(map(str, item["loc"])) or "request"
            return {"ok": False, "error": f"{where}: {item['msg'][:1].lower()}{item['msg'][1:200]}"}
        except (Refused, Unreadable) as error:
            return {"ok": False, "error": str(error)}

    return answer


def _ladder(desk: WorkerContext, name: str | None) -> Ladder:
    known = ", ".join(desk.ladders)
    if desk.settings.shadow:
        raise Refused("RATINGS_SHADOW: a shadow takes nothing back; do it on the ladder itself")
    if name is None and len(desk.ladders) > 1:
        raise Refused(f"ladder: it is required with several ladders; use one of {known}")
    if name is not None and name not in desk.ladders:
        raise Refused(f"ladder: {quote(name)} is not configured; use one of {known}")
    return desk.ladders[name or next(iter(desk.ladders))]


#: Name -> arq function. Each takes one object, the request.
VOID_JOBS: Final[dict[str, Any]] = {
    "void_match": _job(_OneMatch, _void_match),
    "void_player": _job(_OfPlayer, _void_player),
}
