"""All that can be said of one dead letter: how it is read, what is wrong, what a replay would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from redis.asyncio import Redis

from match_ratings import MatchFinished, RatingUpdated, Reason
from match_ratings_worker.dead_letters.diagnose_message import Trouble, diagnose, trouble_of
from match_ratings_worker.dead_letters.dry_run import DryRun, Verdict, readable
from match_ratings_worker.dead_letters.export_records import record_of
from match_ratings_worker.dead_letters.letter_store import Setup
from match_ratings_worker.dead_letters.replay_outcome import Outcome
from match_ratings_worker.pipeline.validate_message import Problem
from match_ratings_worker.queries import DeadLetterEntry, event_at, server_time
from match_ratings_worker.text import quote

__all__ = ["Inspection", "inspect"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A dead letter, looked at from all sides. The texts of `fields` and `troubles` are safe to print."""

    letter: DeadLetterEntry
    #: Name and value of each field of its message; empty when that is no JSON object.
    fields: list[tuple[str, str]]
    troubles: list[Trouble]
    #: What a replay would do now.
    verdict: Verdict

    def document(self, ladder: str) -> dict[str, Any]:
        """All of it for JSON."""
        verdict = self.verdict
        return {
            **record_of(self.letter, ladder),
            "troubles": [asdict(trouble) for trouble in self.troubles],
            "replayed_now": {
                "outcome": verdict.outcome.value,
                "detail": verdict.detail,
                "reason": verdict.reason,
            },
        }


async def inspect(redis: Redis, setup: Setup, letter: DeadLetterEntry) -> Inspection:
    """Looks at a dead letter; nothing is written."""
    now = await server_time(redis, setup.keys.inbox)
    forecast = await DryRun.open(redis, setup)
    [verdict] = await forecast.of([(letter, False)], now=now)
    diagnosis = diagnose(letter.message, setup, now)
    troubles = diagnosis.troubles
    if not troubles and verdict.reason:
        what = verdict.detail
        if verdict.outcome is Outcome.CONFLICT and verdict.ledger_id:
            event = await event_at(redis, setup.keys, verdict.ledger_id)
            read = readable(letter.message, setup, now)
            if event is not None and not isinstance(read, Problem):
                what = _differences(read, event) or what
        troubles = [trouble_of(Problem(Reason(verdict.reason), what))]
    return Inspection(letter, diagnosis.fields, troubles, verdict)


def _differences(message: Any, event: RatingUpdated) -> str:
    """What a message says otherwise than the match that was rated."""
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
    told = [
        f"{name} {quote(here)}, it was rated with {quote(rated)}"
        for name, here, rated in pairs
        if here != rated
    ]
    return "; ".join(told)
