"""An audit from beginning to end."""

from __future__ import annotations

from itertools import islice
from typing import Final

from redis.asyncio import Redis

from match_ratings_worker.audit.audit_report import Difference, Kind, Progress, Report
from match_ratings_worker.audit.check_unknown_players import (
    check_counts,
    check_receipts,
    check_unknown_players,
)
from match_ratings_worker.audit.compare_player import compare
from match_ratings_worker.audit.follow_ledger import MAX_PASSES, Follower
from match_ratings_worker.audit.ledger_replay import Replay
from match_ratings_worker.audit.repair import Mismatch, Repairer
from match_ratings_worker.audit.sample_receipts import Sample
from match_ratings_worker.audit.stored_snapshot import SnapshotReader
from match_ratings_worker.ladder_settings import adopted_settings as adoption
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory
from match_ratings_worker.ledger.read_ledger import Archive, Ledger, LedgerTrimmed
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.stream_ids import stream_id_ms
from match_ratings_worker.storage.stream_pages import Unreadable, server_time
from match_ratings_worker.units import WINDOW_MS

__all__ = ["audit"]

#: How often an audit begins anew when events are trimmed before it has read them, or settings change.
_TRIES: Final = 3


async def audit(
    redis: Redis,
    keys: Keys,
    ladder: str,
    system: RatingSystem,
    *,
    horizon: int,
    archive: Archive | None = None,
    repair: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Replays a ladder's ledger and compares; workers may run meanwhile.

    `system` stands in where no settings are adopted, `horizon` is in ms, `archive` has the events that
    Redis no longer keeps. With `repair`, leaderboard, windows and open periods are rebuilt where they
    differ; ratings never are. Raises redis.exceptions.RedisError, and Unreadable when events are trimmed
    faster than they can be read.
    """
    for _ in range(_TRIES):
        now = await server_time(redis, keys.inbox)
        adoptions = await adoption.history(redis, keys)
        rulebook = SettingsHistory(system, adoptions)
        report = Report()
        replay = Replay(ladder, rulebook, horizon=horizon, cut=now - WINDOW_MS - horizon, found=report.add)
        follower = Follower(
            Ledger(redis, keys, archive),
            SnapshotReader(redis, keys, rulebook.current, horizon=horizon),
            replay,
            Sample(keys, oldest=now - horizon),
        )
        try:
            await _replay(follower, report, progress, archived=archive is not None)
            suspects = await _compare(follower, report, progress)
            mender = Repairer(follower, report, suspects)
            await mender.look(progress, repair=repair)
            await check_unknown_players(follower, report, repair=repair)
            await check_counts(follower, report)
            await check_receipts(follower, report, await server_time(redis, keys.inbox), horizon)
        except LedgerTrimmed:
            continue
        if adoptions != await adoption.history(redis, keys):
            continue  # some events were rated by settings that it did not know
        report.events, report.players = replay.events, len(replay.tracks)
        report.partly = sum(not track.whole for track in replay.tracks.values())
        report.since = stream_id_ms(replay.first) if replay.first else None
        return report
    msg = "the ledger is trimmed, or its settings change, faster than it can be read; try again later"
    raise Unreadable(msg)


async def _replay(follower: Follower, report: Report, progress: Progress, *, archived: bool) -> None:
    """Reads the whole ledger."""
    replay = follower.replay
    replay.complete, deleted = await follower.ledger.about()
    if deleted:
        text = f"events were deleted from the ledger by hand, the last of them {deleted}"
        report.add(Difference(Kind.MISSING, text, ledger_id=deleted))
    size = await follower.ledger.size()
    progress("Replaying the ledger", 0, size)
    async for done in follower.read():
        progress("Replaying the ledger", done, max(size, done))
    if archived and replay.events and all(track.whole for track in replay.tracks.values()):
        replay.complete = not deleted


async def _compare(follower: Follower, report: Report, progress: Progress) -> dict[str, Mismatch]:
    """Compares all players; returns those of whom something derived differs."""
    replay, system = follower.replay, follower.replay.rulebook.current
    suspects: dict[str, Mismatch] = {}
    compared = 0
    for _ in range(MAX_PASSES):  # players who are new meanwhile come in another round
        names = list(islice(replay.tracks, compared, None))
        async for page in follower.looks(names):
            for name, stored in page:
                track = replay.tracks[name]
                told = 0
                for difference in compare(name, track, stored, system):
                    report.add(difference)
                    told += difference.repairable
                window = not stored.fault and not track.has_window(stored.games)
                if told or window:
                    suspects[name] = Mismatch(window, told)
            compared += len(page)
            progress("Comparing players", compared, len(replay.tracks))
        if compared >= len(replay.tracks):
            break
    return suspects
