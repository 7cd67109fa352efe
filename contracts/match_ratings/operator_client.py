"""What a back office asks of the workers through arq: void matches; list, replay and correct dead letters.

Each function is one arq job, written as JSON whatever the pool's own serializer, and returns the worker's
answer: a JSON object with `ok` true. All raise ValueError, with the worker's sentence, for a request that is
refused, TimeoutError when there is no answer in `timeout` seconds, and RedisError when Redis does not answer.
After a TimeoutError the job stays queued for a day, and is carried out when a worker runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from match_ratings.client import AskingPool, ask_workers

__all__ = [
    "DeadLetterSelection",
    "ReplayArguments",
    "discard_dead_letters",
    "edit_dead_letter",
    "list_dead_letters",
    "replay_dead_letters",
    "restore_dead_letters",
    "show_dead_letter",
    "void_match",
    "void_player",
]

#: How long an answer is waited for, in seconds.
_TIMEOUT = 60.0


class DeadLetterSelection(TypedDict, total=False):
    """Selects dead letters; what is not given matches all."""

    #: Required where several ladders are configured.
    ladder: str
    ids: Sequence[str]
    #: Reason codes, such as "failed".
    reasons: Sequence[str]
    #: Became dead letters at this time or later, and before this time: RFC 3339 or ms.
    since: str | int
    before: str | int
    player: str
    #: Id of a match or tournament.
    match_id: str
    #: Replay and discard only: all dead letters, where nothing else is given.
    all: bool


class ReplayArguments(DeadLetterSelection, total=False):
    """Which dead letters to replay, and how: the options of `match-ratings dead-letters replay`."""

    #: Return the outcomes that a replay would have; change nothing.
    dry_run: bool
    #: Letters a second at most.
    rate: float
    include_parked: bool
    force_late: bool
    #: With `force_late`: your statement that they were not rated, and how you know.
    never_rated: str
    #: Who does it, for the record.
    by: str


async def void_match(
    arq: AskingPool, match_id: str, *, why: str, by: str, ladder: str | None = None, timeout: float = 30.0
) -> dict[str, Any]:
    """Void a rated match. `why` and `by` (who does it) are kept in the ledger; `timeout` is at most 50 s.

    The answer has `outcome`: "voided" or "already-voided" with `void_event` and the `players`' changes;
    "unknown", "not-rated", "not-kept" or "refused" with a `detail`; or "waiting". Calling it again is safe.
    """
    request = {"match_id": match_id, "why": why, "by": by, "timeout": timeout, "ladder": ladder}
    return await ask_workers(arq, "void_match", request, timeout=timeout + 5)


async def void_player(
    arq: AskingPool,
    player: str,
    period: tuple[str | int, str | int | None],
    *,
    why: str,
    by: str,
    **options: Any,
) -> dict[str, Any]:
    """Void all matches of a player that finished in a period, newest first.

    `period` is its begin and its end, None for now, as RFC 3339 or ms. The answer has `outcomes` (number of
    matches by outcome, see `void_match`), `change` (rating points the player gets back), `opponents` and
    `matches`. `options` may be `ladder`, `dry_run` and `timeout` (60 s by default).
    """
    since, until = period
    timeout = float(options.pop("timeout", _TIMEOUT))
    request = {"player": player, "since": since, "until": until, "why": why, "by": by, **options}
    return await ask_workers(arq, "void_player", request, timeout=timeout)


async def list_dead_letters(
    arq: AskingPool,
    *,
    limit: int = 100,
    after: str | None = None,
    timeout: float = _TIMEOUT,
    **selection: Unpack[DeadLetterSelection],
) -> dict[str, Any]:
    """A page of at most `limit` (1-1000) dead letters, newest first, in `dead_letters`.

    `next` is what `after` takes for the following page, None on the last one.
    """
    request = {**selection, "limit": limit, "after": after}
    return await ask_workers(arq, "dead_letters_list", request, timeout=timeout)


async def show_dead_letter(
    arq: AskingPool, letter_id: str, *, ladder: str | None = None, timeout: float = _TIMEOUT
) -> dict[str, Any]:
    """One dead letter with its `troubles` and `replay_would_give`, the outcome that a replay would have."""
    return await ask_workers(arq, "dead_letters_show", {"id": letter_id, "ladder": ladder}, timeout=timeout)


async def replay_dead_letters(
    arq: AskingPool, *, timeout: float = _TIMEOUT, **arguments: Unpack[ReplayArguments]
) -> dict[str, Any]:
    """Have dead letters rated again; raise ValueError unless a selection or `all` is given.

    The answer has `outcomes` (number of letters by outcome), `results` for up to 1000 of them, `stopped` (why
    it ended early, or ""), and `replay`, its name for `match-ratings dead-letters replay --resume`. A
    replay that takes longer than `timeout` goes on.
    """
    return await ask_workers(arq, "dead_letters_replay", arguments, timeout=timeout)


async def edit_dead_letter(
    arq: AskingPool, letter_id: str, changes: Mapping[str, Any], *, why: str, by: str, **options: Any
) -> dict[str, Any]:
    """Set values in a dead letter's message, by path: {"cube": 2, "players.0": "ada"}.

    The answer has its `new_id` and `replay_would_give`. `options` may be `ladder`, `unset` (paths to
    remove), `message` (the whole message, instead of changes), `timeout` (60 s by default) and `force`,
    without which a message that would still be wrong is refused.
    """
    timeout = float(options.pop("timeout", _TIMEOUT))
    request = {"id": letter_id, "set": dict(changes), "why": why, "by": by, **options}
    return await ask_workers(arq, "dead_letters_edit", request, timeout=timeout)


async def discard_dead_letters(
    arq: AskingPool, *, why: str, by: str, timeout: float = _TIMEOUT, **selection: Unpack[DeadLetterSelection]
) -> dict[str, Any]:
    """Remove dead letters for good; raise ValueError unless a selection or `all` is given.

    They are kept in the ladder's stream `discarded`. The answer has their number, `discarded`.
    """
    request = {**selection, "why": why, "by": by}
    return await ask_workers(arq, "dead_letters_discard", request, timeout=timeout)


async def restore_dead_letters(
    arq: AskingPool,
    dead_letters: Sequence[Mapping[str, Any]],
    *,
    ladder: str | None = None,
    timeout: float = _TIMEOUT,
) -> dict[str, Any]:
    """Restore at most 1000 letters that `list_dead_letters` returned and that were discarded since.

    The answer has the numbers `restored`, `before` (restored before) and `there` (never discarded).
    """
    request = {"dead_letters": list(dead_letters), "ladder": ladder}
    return await ask_workers(arq, "dead_letters_import", request, timeout=timeout)
