"""The dead-letters commands as arq jobs, for servers: one JSON object in, one JSON object out.

    answer = await match_ratings.replay_dead_letters(arq, reasons=["failed"])
    # {"ok": true, "replay": "5b0e...", "outcomes": {"rated": 12}, ...}

An answer is kept for a day. See `job_requests` about errors.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, Final

import structlog
from arq import Retry

from match_ratings_worker.dead_letters import (
    DeadLetterReplay,
    DeadLetterStore,
    ExportedDeadLetter,
    InvalidEdit,
    InvalidExport,
    ReplayOptions,
    ReplaySummary,
    edit_dead_letter,
    export_document,
    inspect_dead_letter,
)
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle

from .dead_letter_requests import (
    DeadLetterRequest,
    DiscardRequest,
    EditRequest,
    ImportRequest,
    ListRequest,
    ReplayRequest,
    checked_letter_id,
)
from .job_requests import MAX_LISTED, RequestRefused, job_function

log = structlog.get_logger(__name__)

#: Seconds after which a replay goes back to the queue, to be resumed at once.
_PART_SECONDS: Final = 35.0


async def _get(ladder: LadderHandle, letter_id: str) -> DeadLetterEntry:
    [letter] = await DeadLetterStore(ladder).get([checked_letter_id(letter_id)])
    if letter is None:
        raise RequestRefused(f"id: {letter_id} is no dead letter")
    return letter


async def _list(ladder: LadderHandle, request: ListRequest, job_id: str) -> dict[str, Any]:
    letters = DeadLetterStore(ladder)
    if request.counts:
        counts = await letters.count_by_reason(request.filter())
        return {"total": counts.total(), "by_reason": dict(counts.most_common())}
    page: list[dict[str, Any]] = []
    before = None if request.after is None else checked_letter_id(request.after)
    async for letter in letters.find(request.filter(), before=before):
        if len(page) == request.limit:
            return {"dead_letters": page, "next": page[-1]["id"]}
        page.append(export_document(letter, ladder.name))
    return {"dead_letters": page, "next": None}


async def _show(ladder: LadderHandle, request: DeadLetterRequest, job_id: str) -> dict[str, Any]:
    return (await inspect_dead_letter(ladder, await _get(ladder, request.id))).document(ladder.name)


async def _replay(ladder: LadderHandle, request: ReplayRequest, job_id: str) -> dict[str, Any]:
    if request.never_rated and not request.force_late:
        raise RequestRefused("never_rated: it goes with force_late")
    options = ReplayOptions(
        request.filter(),
        rate=request.rate,
        include_parked=request.include_parked,
        force_late=request.force_late,
        never_rated=request.never_rated,
        by=request.by,
        timeout=request.timeout,
    )
    # The same name when arq tries the job again: the replay is resumed.
    name = hashlib.blake2b(job_id.encode(), digest_size=12).hexdigest()
    replay, summary = DeadLetterReplay(ladder, options, name), ReplaySummary()
    end = time.monotonic() + _PART_SECONDS
    listed: list[dict[str, Any]] = []
    stopped = ""
    async for result in replay.dry_run() if request.dry_run else replay.results():
        summary.add(result)
        if len(listed) < MAX_LISTED:
            listed.append(result.document())
        if time.monotonic() > end and summary.total < replay.total:
            if not request.dry_run:
                raise Retry(defer=0.05)  # arq would keep a long job from others if this worker died
            stopped = f"a dry run by a job ends after {_PART_SECONDS:g} s; filter, or use the command"
            break
    log.info("replayed dead letters", replay=replay.name, dry_run=request.dry_run, **summary.document())
    return {
        "replay": replay.name,
        "stopped": stopped or replay.stopped,
        "dead_letters": replay.total,
        **summary.document(),
        "results": listed,
        "all_listed": len(listed) == summary.total,
    }


async def _edit(ladder: LadderHandle, request: EditRequest, job_id: str) -> dict[str, Any]:
    letter = await _get(ladder, request.id)
    message = request.new_message(letter.message)
    if message == letter.message:
        raise RequestRefused("set: nothing would be changed")
    edited = await edit_dead_letter(
        ladder, letter, message, by=request.by, why=request.why, force=request.force
    )
    if edited.gone:
        raise RequestRefused(f"id: {request.id} is no dead letter any more")
    if not edited.new_id:
        raise RequestRefused(f"it is still wrong and was not changed: {edited.dry_run.detail}")
    return {"new_id": edited.new_id, "replay_would_give": edited.dry_run.document()}


async def _discard(ladder: LadderHandle, request: DiscardRequest, job_id: str) -> dict[str, Any]:
    letters = DeadLetterStore(ladder)
    where, until = request.filter(), await letters.newest_id()
    count = await letters.discard_matching(where, until=until, by=request.by, why=request.why)
    return {"discarded": count}


async def _import(ladder: LadderHandle, request: ImportRequest, job_id: str) -> dict[str, Any]:
    letters = [ExportedDeadLetter.read(item, ladder.name) for item in request.dead_letters]
    restored = await DeadLetterStore(ladder).restore(
        [(letter.fingerprint(), letter.entry()) for letter in letters]
    )
    there, before = restored.count("="), restored.count("")
    return {"restored": len(restored) - there - before, "before": before, "there": there}


#: Name -> arq function. Each takes one object, the request.
DEAD_LETTER_JOBS: Final[dict[str, Any]] = {
    "dead_letters_list": job_function(ListRequest, _list),
    "dead_letters_show": job_function(DeadLetterRequest, _show),
    "dead_letters_replay": job_function(ReplayRequest, _replay, repeatable=True),
    "dead_letters_edit": job_function(EditRequest, _edit, refusals=(InvalidEdit,)),
    "dead_letters_discard": job_function(DiscardRequest, _discard),
    "dead_letters_export": job_function(ListRequest, _list),
    "dead_letters_import": job_function(ImportRequest, _import, refusals=(InvalidExport,)),
}
