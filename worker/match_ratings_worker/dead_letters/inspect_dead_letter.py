"""Show one dead letter in full: how it is read, what is wrong with it, and what a replay would give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from match_ratings import MatchFinished, RatingUpdated, Reason
from match_ratings_worker.ledger import Ledger
from match_ratings_worker.pipeline import Problem
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle, server_time

from .dry_run import DryRun, DryRunResult, read_dead_letter
from .explain_rejection import Trouble, diagnose, trouble_of
from .export_dead_letters import export_document
from .replay_results import ReplayOutcome


@dataclass(frozen=True, slots=True)
class Inspection:
    """A dead letter with its faults. The texts of `fields` and `troubles` are safe to print."""

    letter: DeadLetterEntry
    #: Name and value of each field of its message; empty unless that is a JSON object.
    fields: list[tuple[str, str]]
    troubles: list[Trouble]
    dry_run: DryRunResult

    def document(self, ladder: str) -> dict[str, Any]:
        """A JSON object: that of the export, and `troubles` and `replay_would_give` besides."""
        return {
            **export_document(self.letter, ladder),
            "troubles": [asdict(trouble) for trouble in self.troubles],
            "replay_would_give": self.dry_run.document(),
        }


async def inspect_dead_letter(ladder: LadderHandle, letter: DeadLetterEntry) -> Inspection:
    """Inspect a dead letter; write nothing."""
    now = await server_time(ladder.redis, ladder.keys.inbox)
    dry_run = await DryRun.open(ladder)
    [result] = await dry_run.of([(letter, False)], now=now)
    diagnosis = diagnose(letter.message, ladder, now)
    troubles = diagnosis.troubles
    if not troubles and result.reason:
        what = result.detail
        if result.outcome is ReplayOutcome.CONFLICT and result.ledger_id:
            event = await Ledger(ladder).event_at(result.ledger_id)
            read = read_dead_letter(letter.message, ladder, now)
            if event is not None and not isinstance(read, Problem):
                what = _differences(read, event) or what
        troubles = [trouble_of(Problem(Reason(result.reason), what))]
    return Inspection(letter, diagnosis.fields, troubles, result)


def _differences(message: Any, event: RatingUpdated) -> str:
    """The fields in which a message differs from the match that was rated."""
    if not isinstance(message, MatchFinished):
        return ""
    players = sorted(part.player for part in event.players)
    winner = next((part.player for part in event.players if part.score == 1), None)
    length = event.figures.get("length")
    pairs: list[tuple[str, object, object]] = [
        ("players", sorted(message.players), players),
        ("winner", message.winner, winner),
        ("cube", message.cube, event.cube),
        ("length", message.length, length),
        ("finished_at", message.finished_at, event.finished_at),
    ]
    different = [
        f"{name} {quote(here)}, it was rated with {quote(rated)}"
        for name, here, rated in pairs
        if here != rated
    ]
    return "; ".join(different)
