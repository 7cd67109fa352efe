"""Players who are stored and of whom the ledger has nothing; receipts and counts."""

from __future__ import annotations

from typing import Final

from match_ratings import Cause
from match_ratings_worker.audit.audit_report import Difference, Kind, Report
from match_ratings_worker.audit.compare_player import Derived, Stored, derived, differing, stored_state
from match_ratings_worker.audit.follow_ledger import MAX_PASSES, Follower
from match_ratings_worker.audit.stored_snapshot import Repair

__all__ = ["check_counts", "check_receipts", "check_unknown_players"]

#: Counted outcomes and the cause of the events that they belong to.
_COUNTED: Final = {
    "rated": Cause.MATCH,
    "prize": Cause.PRIZE,
    "void": Cause.VOID,
    "imported": Cause.IMPORT,
}
_PAGE: Final = 500


async def check_unknown_players(follower: Follower, report: Report, *, repair: bool) -> None:
    """Looks through all that is stored for players without an event.

    In a ledger that lacks nothing there are none; otherwise their events are no longer kept, and only
    what follows from their own ratings can be compared.
    """
    async for page in follower.books.stored_players():
        await _strangers(follower, report, page, repair=repair)
    async for page in follower.books.listed_players():
        await _strangers(follower, report, page, repair=repair, only_listed=True)


async def _strangers(
    follower: Follower, report: Report, names: list[str], *, repair: bool, only_listed: bool = False
) -> None:
    tracks = follower.replay.tracks
    rest = [name for name in dict.fromkeys(names) if name not in tracks]
    told: dict[str, int] = {}
    for _ in range(MAX_PASSES):
        moved: list[str] = []
        async for page in follower.looks(rest):
            # Others' first events have come meanwhile; of a stored player more is known than of a listed one.
            strange = [(name, stored) for name, stored in page if name not in tracks]
            if only_listed:
                strange = [(name, stored) for name, stored in strange if not stored.there and stored.score]
            repairs = []
            for name, stored in strange:
                found, right = _judge(name, stored, follower)
                if name not in told:
                    report.unvouched += stored.there and not follower.replay.complete
                    told[name] = sum(difference.repairable for difference in found)
                    for difference in found:
                        report.add(difference)
                if told[name] and right is not None:
                    repairs.append(Repair(name, stored.values[1], right))
            if repair:
                for made, done in zip(repairs, await follower.books.repair(repairs), strict=True):
                    if done:
                        report.settle(told[made.player])
                    else:
                        moved.append(made.player)
        rest = moved
        if not rest:
            return


def _judge(name: str, stored: Stored, follower: Follower) -> tuple[list[Difference], Derived | None]:
    """The differences of a player without an event, and what should follow from what is stored."""
    if stored.fault:
        return [Difference(Kind.PLAYER, f"{name}: it cannot be read: {stored.fault}", name)], None
    if not stored.there:
        text = f"{name}: it is on the leaderboard, but neither stored nor in the ledger"
        return [Difference(Kind.LEADERBOARD, text, name)], Derived(None, None)
    if follower.replay.complete:
        return [
            Difference(Kind.PLAYER, f"{name}: it is stored, but the ledger has no event of it", name)
        ], None
    system = follower.replay.rulebook.current
    state = stored_state(stored, system)
    if state is None:
        return [Difference(Kind.PLAYER, f"{name}: the stored state cannot be read", name)], None
    right = derived(state, system)
    return list(differing(name, stored, right, "the stored rating")), right


async def check_receipts(follower: Follower, report: Report, now: int, horizon: int) -> None:
    """Looks at a sample of the receipts that are kept for the `horizon` up to `now` (ms)."""
    sample = [receipt for receipt in follower.sample.receipts if receipt.rated_at + horizon > now]
    report.receipts = len(sample)
    for start in range(0, len(sample), _PAGE):
        page = sample[start : start + _PAGE]
        found = await follower.books.receipts([receipt.key for receipt in page])
        for receipt, named in zip(page, found, strict=True):
            if named != receipt.ledger_id:
                text = f"event {receipt.ledger_id}: its receipt names {named or 'nothing'}"
                report.add(Difference(Kind.RECEIPT, text, ledger_id=receipt.ledger_id))


async def check_counts(follower: Follower, report: Report) -> None:
    """Compares the outcomes counted since the start with the events that belong to them."""
    counts, replay = await follower.counts(), follower.replay
    for outcome, cause in _COUNTED.items():
        counted, events = counts.get(outcome, 0), replay.causes.get(cause, 0)
        if counted < events or (replay.complete and counted != events):
            text = f"{counted} are counted as {outcome}; the ledger has {events} events with cause {cause}"
            report.add(Difference(Kind.COUNT, text))
