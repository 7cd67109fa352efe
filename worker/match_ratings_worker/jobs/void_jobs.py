"""The void command as arq jobs, for servers: one JSON object in, one JSON object out.

    answer = await match_ratings.void_match(arq, "m-1", why="a bot", by="eve")
    # {"ok": true, "ladder": "backgammon", "match_id": "m-1", "outcome": "voided", ...}

`ok` says that the request could be carried out; `outcome` is that of `match-ratings void --json`. An
answer is kept for a day. A job that runs again, since its worker was killed, finds what it had done.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from match_ratings.messages import Id, Milliseconds
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle
from match_ratings_worker.voids import (
    Refunds,
    VoidResult,
    VoidStatus,
    plan_player_voids,
    void_match,
    void_matches,
)

from .job_requests import MAX_LISTED, LadderRequest, RequestRefused, job_function


class _VoidRequest(LadderRequest):
    # Together they fit into the `why` of a message.
    why: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
    by: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=90)]
    #: Seconds without any result after which the job answers.
    timeout: Annotated[float, Field(ge=0, le=50)] = 30.0

    @property
    def signed_why(self) -> str:
        """The reason as the ledger keeps it, with its author."""
        return f"{self.why} ({self.by})"


class _MatchRequest(_VoidRequest):
    match_id: Id


class _PlayerRequest(_VoidRequest):
    player: Id
    #: Matches that finished at this time or later, and before this time.
    since: Milliseconds
    until: Milliseconds | None = None
    dry_run: bool = False


def _not_in_shadow(ladder: LadderHandle) -> None:
    if ladder.shadow:
        raise RequestRefused("RATINGS_SHADOW: a shadow voids nothing; do it on the ladder itself")


async def _void_match(ladder: LadderHandle, request: _MatchRequest, job_id: str) -> dict[str, Any]:
    _not_in_shadow(ladder)
    result = await void_match(ladder, request.match_id, request.signed_why, timeout=request.timeout)
    return {"ladder": ladder.name, **result.document()}


async def _void_player(ladder: LadderHandle, request: _PlayerRequest, job_id: str) -> dict[str, Any]:
    _not_in_shadow(ladder)
    plan = await plan_player_voids(ladder, request.player, request.since, request.until)
    if plan is None:
        raise RequestRefused(f"player: {quote(request.player)} is not known on ladder {ladder.name}")
    if request.dry_run:
        results = [VoidResult(match.match_id or "", VoidStatus.RATED, match) for match in plan.matches]
        refunds = Refunds(request.player, plan.matches, planned=True)
    else:
        results = await void_matches(ladder, plan.matches, request.signed_why, timeout=request.timeout)
        refunds = Refunds(request.player, [item.void for item in results if item.void is not None])
    results += plan.refused
    return {
        "ladder": ladder.name,
        "player": request.player,
        "dry_run": request.dry_run,
        "outcomes": dict(Counter(result.status.value for result in results)),
        **refunds.document(),
        "matches": [result.document() for result in results[:MAX_LISTED]],
        "all_listed": len(results) <= MAX_LISTED,
    }


#: Name -> arq function. Each takes one object, the request.
VOID_JOBS: Final[dict[str, Any]] = {
    "void_match": job_function(_MatchRequest, _void_match, repeatable=True),
    "void_player": job_function(_PlayerRequest, _void_player, repeatable=True),
}
