"""The dead-letters commands as arq jobs, for servers: one JSON object in, one JSON object out.

    job = await arq.enqueue_job("dead_letters_replay", {"reasons": ["failed"]}, _queue_name="ratings:jobs")
    await job.result()  # {"ok": true, "run": ..., "outcomes": {"rated": 12}, ...}

What is wrong with the request is said in the answer, `{"ok": false, "error": ...}`; it is kept for a day.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
import structlog
from arq import Retry
from pydantic import ValidationError

from match_ratings_worker.dead_letters import (
    BadRecord,
    Letters,
    NotAllowed,
    Order,
    Record,
    Replay,
    Setup,
    Summary,
    edit,
    inspect,
    record_of,
)
from match_ratings_worker.jobs.dead_letter_requests import (
    Discard,
    Edit,
    Import,
    Listing,
    One,
    Refused,
    ReplayRequest,
    Request,
    checked_letter,
)
from match_ratings_worker.ledger.sqlite_archive import ArchiveError
from match_ratings_worker.queries import DeadLetterEntry
from match_ratings_worker.storage.connection import CONNECTION_ERRORS
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from match_ratings_worker.runtime.worker_context import WorkerContext

__all__ = ["KEEP_SECONDS", "LETTER_JOBS"]

log = structlog.get_logger(__name__)

#: How long an answer is kept.
KEEP_SECONDS: Final = 86_400
#: Results that an answer lists one by one, at most; the sums are of all.
_LISTED: Final = 1000

#: Seconds after which a replay is put back, to be gone on with at once.
_PART_SECONDS: Final = 35.0

R = TypeVar("R", bound="Request")


def _setup(desk: WorkerContext, name: str | None) -> Setup:
    known = ", ".join(desk.ladders)
    if name is None and len(desk.ladders) > 1:
        raise Refused(f"ladder: it is required with several ladders; use one of {known}")
    if name is not None and name not in desk.ladders:
        raise Refused(f"ladder: {quote(name)} is not configured; use one of {known}")
    return Setup.of(desk.settings, desk.ladders[name or next(iter(desk.ladders))])


def _run_name(ctx: dict[str, Any]) -> str:
    """The run of a job, the same when arq tries the job again: then it goes on where it was."""
    return hashlib.blake2b(str(ctx["job_id"]).encode(), digest_size=12).hexdigest()


async def _one(letters: Letters, letter_id: str) -> DeadLetterEntry:
    [letter] = await letters.get([checked_letter(letter_id)])
    if letter is None:
        raise Refused(f"id: {letter_id} is no dead letter")
    return letter


async def _list(desk: WorkerContext, request: Listing, setup: Setup, ctx: dict[str, Any]) -> dict[str, Any]:
    letters = Letters(desk.redis, setup)
    if request.counts:
        counts = await letters.reasons(request.filter())
        return {"total": counts.total(), "by_reason": dict(counts.most_common())}
    page: list[dict[str, Any]] = []
    before = None if request.after is None else checked_letter(request.after)
    async for letter in letters.find(request.filter(), before=before):
        if len(page) == request.limit:
            return {"dead_letters": page, "next": page[-1]["id"]}
        page.append(record_of(letter, setup.ladder))
    return {"dead_letters": page, "next": None}


async def _show(desk: WorkerContext, request: One, setup: Setup, ctx: dict[str, Any]) -> dict[str, Any]:
    letter = await _one(Letters(desk.redis, setup), request.id)
    return (await inspect(desk.redis, setup, letter)).document(setup.ladder)


async def _replay(
    desk: WorkerContext, request: ReplayRequest, setup: Setup, ctx: dict[str, Any]
) -> dict[str, Any]:
    if request.never_rated and not request.force_late:
        raise Refused("never_rated: it goes with force_late")
    order = Order(
        request.filter(),
        rate=request.rate,
        include_parked=request.include_parked,
        force_late=request.force_late,
        never_rated=request.never_rated,
        who=request.who,
        patience=request.patience,
    )
    replay = Replay(desk.redis, setup, order, _run_name(ctx))
    try:
        return await _carried_out(replay, request)
    except CONNECTION_ERRORS as error:  # what it had moved is in its run: it goes on from there
        log.warning("Redis does not answer; the replay waits", error=quote(str(error), 200))
        raise Retry(defer=1) from None


async def _carried_out(replay: Replay, request: ReplayRequest) -> dict[str, Any]:
    summary, end = Summary(), time.monotonic() + _PART_SECONDS
    listed: list[dict[str, Any]] = []
    stopped = ""
    async for result in replay.dry_run() if request.dry_run else replay.results():
        summary.add(result)
        if len(listed) < _LISTED:
            listed.append(result.document())
        if time.monotonic() > end and summary.total < replay.total:
            if not request.dry_run:
                raise Retry(defer=0.05)  # arq keeps a job that takes long from the others if this worker dies
            stopped = f"a dry run by a job ends after {_PART_SECONDS:g} s; filter, or use the command"
            break
    log.info("replayed dead letters", run=replay.name, dry_run=request.dry_run, **summary.document())
    return {
        "run": replay.name,
        "stopped": stopped or replay.stopped,
        "dead_letters": replay.total,
        **summary.document(),
        "results": listed,
        "all_listed": len(listed) == summary.total,
    }


async def _edit(desk: WorkerContext, request: Edit, setup: Setup, ctx: dict[str, Any]) -> dict[str, Any]:
    letters = Letters(desk.redis, setup)
    letter = await _one(letters, request.id)
    message = request.new_message(letter.message)
    if message == letter.message:
        raise Refused("set: nothing would be changed")
    edited = await edit(
        letters, setup, letter, message, who=request.who, why=request.why, anyway=request.anyway
    )
    verdict = edited.verdict
    if edited.gone:
        raise Refused(f"id: {request.id} is no dead letter any more")
    if not edited.now:
        raise Refused(f"it is still wrong and was not changed: {verdict.detail}")
    return {"now": edited.now, "replayed_now": {"outcome": verdict.outcome.value, "detail": verdict.detail}}


async def _discard(
    desk: WorkerContext, request: Discard, setup: Setup, ctx: dict[str, Any]
) -> dict[str, Any]:
    letters = Letters(desk.redis, setup)
    where, until = request.filter(), await letters.newest()
    count = await letters.discard_all(where, until=until, who=request.who, why=request.why)
    return {"discarded": count}


async def _import(desk: WorkerContext, request: Import, setup: Setup, ctx: dict[str, Any]) -> dict[str, Any]:
    try:
        records = [Record.read(item, setup.ladder) for item in request.dead_letters]
    except BadRecord as error:
        raise Refused(str(error)) from None
    restored = await Letters(desk.redis, setup).restore(
        [(record.fingerprint(), record.letter()) for record in records]
    )
    there, before = restored.count("="), restored.count("")
    return {"restored": len(restored) - there - before, "before": before, "there": there}


def _job(
    model: type[R], act: Callable[[WorkerContext, R, Setup, dict[str, Any]], Awaitable[dict[str, Any]]]
) -> Callable[[dict[str, Any], Any], Awaitable[dict[str, Any]]]:
    """An arq function that reads its request, and answers whatever happens."""

    async def answer(ctx: dict[str, Any], request: Any) -> dict[str, Any]:
        desk: WorkerContext = ctx["desk"]
        try:
            read = model.model_validate_json(orjson.dumps(request))
            return {"ok": True, **await act(desk, read, _setup(desk, read.ladder), ctx)}
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            where = ".".join(map(str, item["loc"])) or "request"
            return {"ok": False, "error": f"{where}: {item['msg'][:1].lower()}{item['msg'][1:200]}"}
        except (Refused, NotAllowed, ArchiveError) as error:
            return {"ok": False, "error": str(error)}
        except CONNECTION_ERRORS as error:
            return {"ok": False, "error": f"Redis did not answer: {quote(str(error), 200)}"}

    return answer


#: Name -> arq function. Each takes one object, the request.
LETTER_JOBS: Final[dict[str, Any]] = {
    "dead_letters_list": _job(Listing, _list),
    "dead_letters_show": _job(One, _show),
    "dead_letters_replay": _job(ReplayRequest, _replay),
    "dead_letters_edit": _job(Edit, _edit),
    "dead_letters_discard": _job(Discard, _discard),
    "dead_letters_export": _job(Listing, _list),
    "dead_letters_import": _job(Import, _import),
}
