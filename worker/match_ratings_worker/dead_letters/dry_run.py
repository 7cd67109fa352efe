"""Predict by the workers' own rules what a replay would make of dead letters now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Self

from match_ratings import MatchVoided, Reason
from match_ratings.messages import Message
from match_ratings_worker.ladder_settings import adopted_system
from match_ratings_worker.pipeline import (
    BatchSnapshot,
    Commit,
    InboxEntry,
    LadderRules,
    LadderStore,
    Problem,
    ReplayOrigin,
    decide,
    digest,
    message_model,
    read_message,
)
from match_ratings_worker.storage import NO_RECEIPT, DeadLetterEntry, LadderHandle, Receipt

from .replay_results import ReplayOutcome

#: Reasons that only time, an upgrade or an operator can remove: a replay cannot help before.
PARKED: Final = frozenset({Reason.UNSUPPORTED_VERSION, Reason.CLOCK_SKEW, Reason.TOO_LATE})


class DryRunResult(NamedTuple):
    """Predicted outcome of a dead letter."""

    outcome: ReplayOutcome
    detail: str = ""
    #: Reason code, if it would be a dead letter again or is parked.
    reason: str = ""
    #: The event it would make, JSON.
    event: bytes | None = None
    #: For a duplicate or conflict: the event of what was rated; empty where there is none.
    ledger_id: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the message would be a dead letter again for what it says."""
        if self.outcome is ReplayOutcome.PARKED:  # time or --force-late can help the others
            return self.reason == Reason.UNSUPPORTED_VERSION
        return self.outcome in (ReplayOutcome.STILL_WRONG, ReplayOutcome.CONFLICT)

    def document(self) -> dict[str, str]:
        """A JSON object of outcome, detail and reason."""
        return {"outcome": self.outcome.value, "detail": self.detail, "reason": self.reason}


def read_dead_letter(
    raw: bytes, ladder: LadderHandle, now: int, *, force_late: bool = False
) -> Message | Problem:
    """The message, or what is wrong with it by itself; `now` in ms."""
    model = message_model(raw)
    return read_message(
        raw,
        ladder=ladder.name,
        kind=model.kind if model else "",
        now=now,
        horizon=ladder.horizon_ms,
        force_late=force_late,
    )


class DryRun:
    """Predicted outcomes of letters in the order of their replay, each after the effects of those before."""

    def __init__(self, ladder: LadderHandle) -> None:
        self._ladder = ladder
        self._store = LadderStore(
            ladder.redis, ladder.name, ladder.system, horizon=ladder.horizon_ms, shadow=ladder.shadow
        )
        #: Receipt key -> digest of the content that would have had its effect by then.
        self._effects: dict[str, str] = {}

    @classmethod
    async def open(cls, ladder: LadderHandle) -> Self:
        """A dry run by the ladder's adopted settings, whatever this process is configured with."""
        system = await adopted_system(ladder.redis, ladder.keys, ladder.system)
        return cls(replace(ladder, system=system))

    async def of(
        self, letters: Sequence[tuple[DeadLetterEntry, bool]], *, now: int, include_parked: bool = False
    ) -> list[DryRunResult]:
        """Predict each letter's outcome, from today's ratings; `now` in ms. Writes nothing.

        A letter comes with whether it is rated however old it is.
        """
        results: list[DryRunResult | None] = []
        entries: list[InboxEntry] = []
        for letter, force_late in letters:
            read = read_dead_letter(letter.message, self._ladder, now, force_late=force_late)
            if isinstance(read, Problem):
                parked = read.reason in PARKED and not include_parked
                outcome = ReplayOutcome.PARKED if parked else ReplayOutcome.STILL_WRONG
                results.append(DryRunResult(outcome, read.detail, read.reason.value))
            else:
                entries.append(self._entry(letter, read, force_late))
                results.append(None)
        if not entries:
            return [result for result in results if result is not None]
        snapshot = await self._store.read(entries)
        found = iter([self._decided(entry, snapshot) for entry in entries])
        return [result if result is not None else next(found) for result in results]

    def _entry(self, letter: DeadLetterEntry, message: Message, force_late: bool) -> InboxEntry:
        return InboxEntry(
            letter.id,
            1,
            players=message.player_ids,
            receipt=self._store.keys.receipt_of(message),
            message=message,
            digest=digest(message, self._ladder.system),
            replay=ReplayOrigin("", letter.attempts, letter.first_seen, force_late=force_late),
        )

    def _decided(self, entry: InboxEntry, snapshot: BatchSnapshot) -> DryRunResult:
        for name in entry.players:  # as if nothing else were in the inbox
            snapshot.players[name].line, snapshot.players[name].passed = [entry.id], 0
        for key in (entry.receipt, snapshot.match_receipts.get(entry.id, entry.receipt)):
            if key in self._effects and not snapshot.receipts.get(key, NO_RECEIPT).mark:
                snapshot.receipts[key] = Receipt.in_batch(self._effects[key])
        receipt = snapshot.receipts.get(entry.receipt, NO_RECEIPT)
        failed: dict[str, Exception] = {}
        rules = LadderRules(self._ladder.name, self._ladder.system, self._ladder.horizon_ms)
        commits = list(decide([entry], snapshot, rules, failed))
        if failed:
            error = failed[entry.id]
            text = f"rating it raises {type(error).__name__}: {error}"
            return DryRunResult(ReplayOutcome.STILL_WRONG, text, Reason.FAILED.value)
        if not commits:
            return DryRunResult(ReplayOutcome.UNDECIDED, _undecided(entry, receipt))
        return self._result(commits[0], receipt)

    def _result(self, commit: Commit, receipt: Receipt) -> DryRunResult:
        entry = commit.entry
        if commit.problem is not None:
            conflict = commit.problem.reason is Reason.CONFLICT
            outcome = ReplayOutcome.CONFLICT if conflict else ReplayOutcome.STILL_WRONG
            detail = commit.problem.detail + (_rated_where(receipt) if conflict else "")
            return DryRunResult(outcome, detail, commit.problem.reason.value, ledger_id=receipt.ledger_id)
        if commit.action == "duplicate":
            detail = f"the same content was received before{_rated_where(receipt)}"
            return DryRunResult(ReplayOutcome.DUPLICATE, detail, ledger_id=receipt.ledger_id)
        self._effects[entry.receipt] = entry.digest
        event = commit.events[-1] if commit.events else None
        return DryRunResult(ReplayOutcome(commit.action), event=event)


def _rated_where(receipt: Receipt) -> str:
    if receipt.is_in_batch:
        return " (in a dead letter that is replayed before this one)"
    return f" (ledger entry {receipt.ledger_id})" if receipt.ledger_id else ""


def _undecided(entry: InboxEntry, receipt: Receipt) -> str:
    if receipt.next_id:
        return "a message with the same id is in the inbox; that one comes first"
    if isinstance(entry.message, MatchVoided):
        return "the match that it voids is a dead letter that is replayed before this one"
    return "it has to wait for another message"
