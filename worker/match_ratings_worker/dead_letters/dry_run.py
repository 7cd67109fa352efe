"""What would become of dead letters if they were replayed now, by the workers' own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from redis.asyncio import Redis

from match_ratings import MatchVoided, Reason
from match_ratings.messages import Message
from match_ratings_worker.dead_letters.letter_store import Setup
from match_ratings_worker.dead_letters.replay_outcome import Outcome
from match_ratings_worker.ladder_settings.adopted_settings import system_of
from match_ratings_worker.pipeline.batch import Commit, Entry, Replay, Snapshot
from match_ratings_worker.pipeline.decide_batch import decide
from match_ratings_worker.pipeline.ladder_store import Store
from match_ratings_worker.pipeline.validate_message import Problem, digest, message_model, read_message
from match_ratings_worker.queries import DeadLetterEntry
from match_ratings_worker.storage.receipts import NO_RECEIPT, Receipt

__all__ = ["DryRun", "Verdict", "readable"]

#: Reasons that only time, an upgrade or an operator's word can remove: a replay cannot help before.
PARKED: Final = frozenset({Reason.UNSUPPORTED_VERSION, Reason.CLOCK_SKEW, Reason.TOO_LATE})

_VERBS: Final = {
    "rate": Outcome.RATED,
    "prize": Outcome.PRIZE,
    "void": Outcome.VOIDED,
    "aside": Outcome.ASIDE,
    "again": Outcome.DUPLICATE,
}


class Verdict(NamedTuple):
    """What would become of a dead letter, and why."""

    outcome: Outcome
    detail: str = ""
    #: Its reason code, if it were a dead letter again, or why it is parked.
    reason: str = ""
    #: The event that it would make, JSON.
    event: bytes | None = None
    #: already-rated, conflict: the event of what was rated; "" where there is none.
    ledger_id: str = ""


def readable(raw: bytes, setup: Setup, now: int, *, force_late: bool = False) -> Message | Problem:
    """The message, or what is wrong with it by itself; `now` in ms."""
    model = message_model(raw)
    return read_message(
        raw,
        ladder=setup.ladder,
        kind=model.kind if model else "",
        now=now,
        horizon=setup.horizon,
        force_late=force_late,
    )


@dataclass(slots=True)
class _Case:
    entry: Entry
    message: Message


class DryRun:
    """Looks at letters in the order of their replay; what earlier ones would do is remembered."""

    def __init__(self, redis: Redis, setup: Setup) -> None:
        self._setup = setup
        self._store = Store(redis, setup.ladder, setup.system, horizon=setup.horizon, shadow=setup.shadow)
        #: Receipt key -> digest of the content that would have had its effect by then.
        self._had: dict[str, str] = {}

    @classmethod
    async def open(cls, redis: Redis, setup: Setup) -> Self:
        """A forecast by the ladder's adopted settings, whatever this process is configured with."""
        return cls(redis, replace(setup, system=await system_of(redis, setup.keys, setup.system)))

    async def of(
        self, letters: Sequence[tuple[DeadLetterEntry, bool]], *, now: int, include_parked: bool = False
    ) -> list[Verdict]:
        """For each letter (with whether it is rated however old it is) what would become of it.

        Nothing is written. Ratings are as they are now: others may come first.
        """
        verdicts: list[Verdict | None] = []
        cases: list[_Case] = []
        for letter, force_late in letters:
            read = readable(letter.message, self._setup, now, force_late=force_late)
            if isinstance(read, Problem):
                parked = read.reason in PARKED and not include_parked
                outcome = Outcome.PARKED if parked else Outcome.STILL_WRONG
                verdicts.append(Verdict(outcome, read.detail, read.reason.value))
            else:
                cases.append(_Case(self._entry(letter, read, force_late), read))
                verdicts.append(None)
        if not cases:
            return [verdict for verdict in verdicts if verdict is not None]
        snapshot = await self._store.read([case.entry for case in cases])
        found = iter([self._decided(case, snapshot) for case in cases])
        return [verdict if verdict is not None else next(found) for verdict in verdicts]

    def _entry(self, letter: DeadLetterEntry, message: Message, force_late: bool) -> Entry:
        return Entry(
            letter.id,
            1,
            players=message.player_ids,
            receipt=self._store.keys.receipt_of(message),
            message=message,
            digest=digest(message, self._setup.system),
            replay=Replay("", letter.attempts, letter.first_seen, force_late=force_late),
        )

    def _decided(self, case: _Case, snapshot: Snapshot) -> Verdict:
        entry = case.entry
        for name in entry.players:  # as if nothing else were in the inbox
            snapshot.players[name].line, snapshot.players[name].passed = [entry.id], 0
        for key in (entry.receipt, snapshot.match_receipts.get(entry.id, entry.receipt)):
            if key in self._had and not snapshot.receipts.get(key, NO_RECEIPT).mark:
                snapshot.receipts[key] = Receipt.in_batch(self._had[key])
        receipt = snapshot.receipts.get(entry.receipt, NO_RECEIPT)
        failed: dict[str, Exception] = {}
        setup = self._setup
        commits = list(
            decide(
                [entry],
                snapshot,
                ladder=setup.ladder,
                system=setup.system,
                horizon=setup.horizon,
                failed=failed,
            )
        )
        if failed:
            error = failed[entry.id]
            text = f"rating it raises {type(error).__name__}: {error}"
            return Verdict(Outcome.STILL_WRONG, text, Reason.FAILED.value)
        if not commits:
            return Verdict(Outcome.UNDECIDED, _undecided(case.message, receipt))
        return self._verdict(commits[0], receipt)

    def _verdict(self, commit: Commit, receipt: Receipt) -> Verdict:
        entry = commit.entry
        if commit.problem is not None:
            conflict = commit.problem.reason is Reason.CONFLICT
            outcome = Outcome.CONFLICT if conflict else Outcome.STILL_WRONG
            detail = commit.problem.detail + (_where(receipt) if conflict else "")
            return Verdict(outcome, detail, commit.problem.reason.value, ledger_id=receipt.ledger_id)
        if commit.verb == "again":
            detail = f"the same content was received before{_where(receipt)}"
            return Verdict(Outcome.DUPLICATE, detail, ledger_id=receipt.ledger_id)
        self._had[entry.receipt] = entry.digest
        event = commit.events[-1] if commit.events else None
        return Verdict(_VERBS[commit.verb], event=event)


def _where(receipt: Receipt) -> str:
    if receipt.is_in_batch:
        return " (in a dead letter that is replayed before this one)"
    return f" (ledger entry {receipt.ledger_id})" if receipt.ledger_id else ""


def _undecided(message: Message, receipt: Receipt) -> str:
    if receipt.next_id:
        return "a message with the same id is in the inbox; that one comes first"
    if isinstance(message, MatchVoided):
        return "the match that it takes back is a dead letter that is replayed before this one"
    return "it has to wait for another message"
