"""An audit from beginning to end."""

from __future__ import annotations

from itertools import islice
from typing import Final

from redis.asyncio import Redis

from worker import adoption
from worker.audit.books import Books
from worker.audit.compare import compare
from worker.audit.follow import ROUNDS, Follower
from worker.audit.ledger import Archive, Ledger, Overtaken
from worker.audit.mend import Mender, Suspect
from worker.audit.receipts import Sample
from worker.audit.replay import Replay
from worker.audit.report import Difference, Kind, Progress, Report
from worker.audit.rules import Rulebook
from worker.audit.strangers import check_counts, check_receipts, check_strangers
from worker.entries import WINDOW_MS
from worker.keys import Keys
from worker.queries.streams import Unreadable, server_time
from worker.rating import RatingSystem

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
        rulebook = Rulebook(system, adoptions)
        report = Report()
        replay = Replay(ladder, rulebook, horizon=horizon, cut=now - WINDOW_MS - horizon, found=report.add)
        follower = Follower(
            Ledger(redis, keys, archive),
            Books(redis, keys, rulebook.current, horizon=horizon),
            replay,
            Sample(keys, oldest=now - horizon),
        )
        try:
            await _replay(follower, report, progress, archived=archive is not None)
            suspects = await _compare(follower, report, progress)
            mender = Mender(follower, report, suspects)
            await mender.look(progress, repair=repair)
            await check_strangers(follower, report, repair=repair)
            await check_counts(follower, report)
            await check_receipts(follower, report, await server_time(redis, keys.inbox), horizon)
        except Overtaken:
            continue
        if adoptions != await adoption.history(redis, keys):
            continue  # some events were rated by settings that it did not know
        report.events, report.players = replay.events, len(replay.tracks)
        report.partly = sum(not track.whole for track in replay.tracks.values())
        report.since = int(replay.first.partition("-")[0]) if replay.first else None
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


async def _compare(follower: Follower, report: Report, progress: Progress) -> dict[str, Suspect]:
    """Compares all players; returns those of whom something derived differs."""
    replay, system = follower.replay, follower.replay.rulebook.current
    suspects: dict[str, Suspect] = {}
    compared = 0
    for _ in range(ROUNDS):  # players who are new meanwhile come in another round
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
                    suspects[name] = Suspect(window, told)
            compared += len(page)
            progress("Comparing players", compared, len(replay.tracks))
        if compared >= len(replay.tracks):
            break
    return suspects
