"""Checks players who are stored, or on the leaderboard, without an event in the ledger."""

from __future__ import annotations

from match_ratings_worker.storage import StoredPlayer

from .audit_report import AuditReport, Difference, DifferenceKind
from .audit_snapshots import MAX_PASSES, ConsistentSnapshots
from .compare_player import Derived, compare_derived, derive
from .ledger_replay import LedgerReplay
from .repair_derived import Repair, write_repairs


async def check_unknown_players(snapshots: ConsistentSnapshots, report: AuditReport, *, repair: bool) -> None:
    """Reports players without an event; with `repair` corrects their derived data.

    A complete ledger has none. Otherwise their events are no longer kept, and only the data derived from
    their own stored states can be compared.
    """
    async for page in snapshots.reader.names():
        await _check(snapshots, report, page, repair=repair)
    async for page in snapshots.reader.names_on_leaderboard():
        await _check(snapshots, report, page, repair=repair, only_listed=True)


async def _check(
    snapshots: ConsistentSnapshots,
    report: AuditReport,
    names: list[str],
    *,
    repair: bool,
    only_listed: bool = False,
) -> None:
    replay = snapshots.replay
    rest = [name for name in dict.fromkeys(names) if name not in replay.players]
    reported: dict[str, int] = {}
    for _ in range(MAX_PASSES):
        changed: list[str] = []
        async for page in snapshots.players(rest):
            # Some may have had their first event since.
            unknown = [(name, stored) for name, stored in page if name not in replay.players]
            if only_listed:  # the stored ones are checked already
                unknown = [(name, stored) for name, stored in unknown if not stored.exists and stored.score]
            repairs = []
            for name, stored in unknown:
                found, right = _compare(name, stored, replay)
                if name not in reported:
                    report.unverifiable += stored.exists and not replay.complete
                    reported[name] = sum(difference.repairable for difference in found)
                    for difference in found:
                        report.add(difference)
                if reported[name] and right is not None:
                    repairs.append(Repair(name, stored.sequence, right))
            if repair:
                written = await write_repairs(snapshots.ledger.ladder, repairs)
                for made, is_written in zip(repairs, written, strict=True):
                    if is_written:
                        report.add_repaired(reported[made.player])
                    else:
                        changed.append(made.player)
        rest = changed
        if not rest:
            return


def _compare(
    name: str, stored: StoredPlayer, replay: LedgerReplay
) -> tuple[list[Difference], Derived | None]:
    """The differences of a player without an event, and the right derived data where they are known."""
    if stored.fault:
        return [Difference(DifferenceKind.PLAYER, f"{name}: it cannot be read: {stored.fault}", name)], None
    if not stored.exists:
        text = f"{name}: it is on the leaderboard, but neither stored nor in the ledger"
        return [Difference(DifferenceKind.LEADERBOARD, text, name)], Derived(None, None)
    if replay.complete:
        text = f"{name}: it is stored, but the ledger has no event of it"
        return [Difference(DifferenceKind.PLAYER, text, name)], None
    system = replay.history.current
    state = stored.state(system)
    if state is None:
        return [Difference(DifferenceKind.PLAYER, f"{name}: the stored state cannot be read", name)], None
    right = derive(state, system)
    return list(compare_derived(name, stored, right, "the stored rating")), right
