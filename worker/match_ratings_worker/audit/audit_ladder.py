"""Audits a ladder: replays its ledger and compares players, receipts and counts."""

from __future__ import annotations

from itertools import islice
from typing import Final

from match_ratings import Cause
from match_ratings_worker.ladder_settings import SettingsHistory
from match_ratings_worker.ladder_settings import adopt_settings as adoption
from match_ratings_worker.ledger import Ledger, LedgerTrimmed
from match_ratings_worker.storage import Unreadable, server_time, stream_id_ms

from .audit_report import AuditReport, Difference, DifferenceKind, Progress
from .audit_snapshots import MAX_PASSES, ConsistentSnapshots
from .check_receipts import ReceiptSample, check_receipts
from .check_unknown_players import check_unknown_players
from .compare_player import compare_player
from .ledger_replay import LedgerReplay
from .repair_derived import Mismatch, Repairer

#: Attempts when events are trimmed before they are read, or settings change.
_ATTEMPTS: Final = 3
#: Counted outcome -> cause of its events.
_COUNTED: Final = {"rated": Cause.MATCH, "prize": Cause.PRIZE, "void": Cause.VOID, "imported": Cause.IMPORT}


async def audit_ladder(
    ledger: Ledger, *, repair: bool = False, progress: Progress = lambda what, done, total: None
) -> AuditReport:
    """Replays a ledger and compares it with the stored data; workers may run at the same time.

    With `repair`, leaderboard, windows and open periods are rebuilt where they differ; ratings never are.
    Raises redis.exceptions.RedisError, ArchiveError, and Unreadable when events are trimmed faster than
    they can be read.
    """
    ladder = ledger.ladder
    for _ in range(_ATTEMPTS):
        now = await server_time(ladder.redis, ladder.keys.inbox)
        adoptions = await adoption.history(ladder.redis, ladder.keys)
        report, sample = AuditReport(), ReceiptSample(ladder, now)
        replay = LedgerReplay(ladder, SettingsHistory(ladder.system, adoptions), now=now, report=report.add)
        snapshots = ConsistentSnapshots(ledger, replay, sample)
        try:
            await _replay(snapshots, report, progress)
            mismatches = await _compare(snapshots, report, progress)
            await Repairer(snapshots, report, mismatches).run(progress, repair=repair)
            await check_unknown_players(snapshots, report, repair=repair)
            await _check_counts(snapshots, report)
            await check_receipts(ladder, sample, report)
        except LedgerTrimmed:
            continue
        if adoptions != await adoption.history(ladder.redis, ladder.keys):
            continue  # some events were rated by settings that the replay did not have
        report.events, report.players = replay.events, len(replay.players)
        report.partial = sum(not player.complete for player in replay.players.values())
        report.since = stream_id_ms(replay.first) if replay.first else None
        return report
    msg = "the ledger is trimmed, or its settings change, faster than it can be read; try again later"
    raise Unreadable(msg)


async def _replay(snapshots: ConsistentSnapshots, report: AuditReport, progress: Progress) -> None:
    """Replays the whole ledger."""
    ledger, replay = snapshots.ledger, snapshots.replay
    replay.complete, deleted = await ledger.deletions()
    if deleted:
        text = f"events were deleted from the ledger by hand, the last of them {deleted}"
        report.add(Difference(DifferenceKind.MISSING, text, ledger_id=deleted))
    size = await ledger.size()
    progress("Replaying the ledger", 0, size)
    async for done in snapshots.replay_to():
        progress("Replaying the ledger", done, max(size, done))
    has_all = replay.events and all(player.complete for player in replay.players.values())
    if ledger.archive is not None and has_all:
        replay.complete = not deleted


async def _compare(
    snapshots: ConsistentSnapshots, report: AuditReport, progress: Progress
) -> dict[str, Mismatch]:
    """Compares all players; returns those whose derived data differ."""
    replay, system = snapshots.replay, snapshots.replay.history.current
    mismatches: dict[str, Mismatch] = {}
    compared = 0
    for _ in range(MAX_PASSES):  # players who are new since then come in the next pass
        names = list(islice(replay.players, compared, None))
        async for page in snapshots.players(names):
            for name, stored in page:
                expected = replay.players[name]
                reported = 0
                for difference in compare_player(name, expected, stored, system):
                    report.add(difference)
                    reported += difference.repairable
                window = not stored.fault and not expected.has_window(stored.games)
                if reported or window:
                    mismatches[name] = Mismatch(window, reported)
            compared += len(page)
            progress("Comparing players", compared, len(replay.players))
        if compared >= len(replay.players):
            break
    return mismatches


async def _check_counts(snapshots: ConsistentSnapshots, report: AuditReport) -> None:
    """Compares the outcomes counted since the ladder's start with the events that belong to them."""
    counts, replay = await snapshots.counts(), snapshots.replay
    for outcome, cause in _COUNTED.items():
        counted, events = counts.get(outcome, 0), replay.causes.get(cause, 0)
        if counted < events or (replay.complete and counted != events):
            text = f"{counted} are counted as {outcome}; the ledger has {events} events with cause {cause}"
            report.add(Difference(DifferenceKind.COUNT, text))
