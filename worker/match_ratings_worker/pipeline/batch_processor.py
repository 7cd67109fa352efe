"""One worker's way through a ladder's messages: claim -> validate -> read -> rate -> commit.

The engine holds claimed messages in memory only as copies: each stays in the inbox until the commit
that settles it, so that an engine can be killed or thrown away at any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog
from redis.exceptions import ResponseError

from match_ratings import Reason, TournamentFinished
from match_ratings_worker.pipeline.batch import Commit, CommitStatus, Entry, Limits
from match_ratings_worker.pipeline.decide_batch import decide
from match_ratings_worker.pipeline.ladder_store import Claim, ClaimedEntry, Store
from match_ratings_worker.pipeline.validate_message import Problem, digest, read_message
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.stream_ids import parse_stream_id
from match_ratings_worker.text import quote

__all__ = ["BatchProcessor"]

log = structlog.get_logger(__name__)

#: How many of the oldest waiting messages a probe looks at.
_PROBE = 8
#: How many messages a batch has at least for the share that waits to say anything.
_CROWD = 16
#: With how many messages a worker begins: were there many workers and few players, it would wait.
_SMALL_PORTION = 32
#: How the errors begin of a server that takes no writes at the moment.
_NO_WRITES = ("OOM", "NOREPLICAS", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN")
#: How many chunks may be on their way to Redis at once.
_MOST_SENT = 4


@dataclass(slots=True)
class BatchProcessor:
    """The engine of one worker for one ladder."""

    store: Store
    ladder: str
    system: RatingSystem
    consumer: str
    limits: Limits = field(default_factory=Limits)
    #: Claimed and not settled yet, by stream id.
    waiting: dict[str, Entry] = field(default_factory=dict)
    #: outcome -> messages settled by this engine.
    settled: Counter[str] = field(default_factory=Counter)
    #: What the last claim of new messages said was the newest entry.
    newest: str = "0-0"
    #: For how long another worker alone claims, in ms.
    leader_ttl_ms: int = 0
    #: Where the last probe looked.
    _probed: int = 0
    #: Whether much of the last batch had to wait for other workers' messages.
    _contended: bool = False
    #: How many messages are claimed, and looked at, at once: less where most of them have to wait.
    _portion: int = _SMALL_PORTION
    #: The server's time at the last claim, in ms.
    _now: int = 0
    #: Commits on their way, oldest first, and the ids of their messages.
    _sent: deque[asyncio.Task[int]] = field(default_factory=deque)
    _in_flight: set[str] = field(default_factory=set)

    async def claim_new(self) -> int:
        """Claims new messages as far as there is room; returns how many came."""
        if len(self.waiting) >= self.limits.waiting:
            return 0
        contended = "contended" if self._contended else ""
        claim = await self.store.claim(self.consumer, "new", min(self._portion, self.limits.batch), contended)
        self.newest, self.leader_ttl_ms = claim.newest, claim.leader_ttl_ms
        return self._take(claim)

    async def claim_own(self) -> int:
        """Takes up again what is already this consumer's, after a reply was lost."""
        total, cursor = 0, "0-0"
        while True:
            claim = await self.store.claim(self.consumer, "own", self.limits.batch, cursor)
            total += self._take(claim)
            if not claim.found:
                return total
            cursor = claim.found[-1].entry.id

    async def claim_stale(self) -> int:
        """Takes over messages of workers that are gone; returns how many."""
        claim = await self.store.claim(self.consumer, "stale", self.limits.batch, self.limits.idle)
        if claim.found:
            log.info(
                "took over messages of a worker that is gone", ladder=self.ladder, count=len(claim.found)
            )
        return self._take(claim)

    def _take(self, claim: Claim) -> int:
        self._now = claim.now
        for claimed in claim.found:
            entry = claimed.entry
            if entry.id not in self.waiting:
                self._validate(claimed, claim.now)
                self.waiting[entry.id] = entry
        return len(claim.found)

    def _validate(self, claimed: ClaimedEntry, now: int) -> None:
        entry = claimed.entry
        if entry.attempts > self.limits.attempts:
            entry.problem = Problem(
                Reason.FAILED, f"it was claimed {entry.attempts - 1} times and no worker finished it"
            )
            return
        if not claimed.kind and claimed.effect_id:
            detail = f"a key of its match or players holds something else: {quote(claimed.effect_id)}"
            entry.problem = Problem(Reason.FAILED, detail)
            return
        read = read_message(
            claimed.raw,
            ladder=self.ladder,
            kind=claimed.kind,
            now=now,
            horizon=self.limits.horizon,
            size=claimed.size,
            force_late=entry.replay is not None and entry.replay.force_late,
        )
        if isinstance(read, Problem):
            entry.problem = read
            return
        if read.player_ids != entry.players or read.effect_id != claimed.effect_id:
            entry.problem = Problem(
                Reason.MALFORMED, "message: its players or id are read differently by different parsers"
            )
            return
        entry.message, entry.digest = read, digest(read, self.system)

    async def settle(self, *, probe: bool = False) -> int:
        """Rates and commits what can go; returns how many messages were settled.

        With `probe` only the oldest few are looked at: cheap, for asking again and again whether
        another worker has made way.
        """
        if not self.waiting:
            return 0
        clock = time.monotonic() * 1000
        entries = [
            self.waiting[key]
            for key in sorted(self.waiting, key=parse_stream_id)
            if key not in self._in_flight
        ]
        if probe and len(entries) > 2 * _PROBE:
            # The oldest, which most others wait for, and each time some others.
            self._probed = (self._probed + _PROBE) % len(entries)
            entries = entries[:_PROBE] + entries[max(self._probed, _PROBE) :][:_PROBE]
        dead = [Commit("dead", entry, problem=entry.problem) for entry in entries if entry.problem]
        done = await self._send(iter(dead), self._now)
        ready = [entry for entry in entries if entry.problem is None and entry.retry_at <= clock]
        suspects = [entry for entry in ready if entry.attempts > 2]
        # A message that may have killed its worker is rated alone, before and apart from the others.
        for suspect in suspects:
            done += await self._rate([suspect])
            done += await self.drain()
        ready = [entry for entry in ready if entry.attempts <= 2]
        done += await self._rate(ready[: 2 * self._portion])
        while self._sent and (self._sent[0].done() or not ready):
            done += await self._sent.popleft()
        return done

    async def drain(self) -> int:
        """Waits for the answers to all that was sent; returns how many messages were settled."""
        done = 0
        while self._sent:
            done += await self._sent.popleft()
        return done

    def forget(self) -> None:
        """Drops what is in memory, after a lost connection; all of it is still claimed in Redis."""
        for task in self._sent:
            task.cancel()
        self._sent.clear()
        self._in_flight.clear()
        self.waiting.clear()

    async def _rate(self, entries: Sequence[Entry]) -> int:
        if not entries:
            return 0
        snapshot = await self.store.read(entries)
        failed: dict[str, Exception] = {}
        commits = decide(
            entries,
            snapshot,
            ladder=self.ladder,
            system=self.system,
            horizon=self.limits.horizon,
            failed=failed,
        )
        done = await self._send(commits, snapshot.now)
        left = sum(entry.id in self.waiting and entry.id not in self._in_flight for entry in entries)
        if len(entries) >= _CROWD:
            self._contended = left * 4 > len(entries)
            doubled, halved = min(self._portion * 2, self.limits.batch), max(self._portion // 2, _CROWD)
            self._portion = halved if self._contended else max(doubled, self._portion)
        if left == len(entries):  # nothing could go: perhaps others have settled some of it
            for entry_id in await self.store.gone([entry.id for entry in entries]):
                self.waiting.pop(entry_id, None)
                failed.pop(entry_id, None)
                done += 1
        for entry_id, error in failed.items():
            self._count_failure(self.waiting[entry_id], error)
        return done

    async def _send(self, commits: Iterator[Commit], now: int) -> int:
        """Sends commits in chunks, without waiting for the last: Redis carries out one chunk while the
        next is worked out here, and reads for the next batch what these have written.
        """
        done = 0
        while chunk := list(islice(commits, self.limits.chunk)):
            while len(self._sent) >= _MOST_SENT:
                done += await self._sent.popleft()
            self._in_flight.update(commit.entry.id for commit in chunk)
            self._sent.append(asyncio.create_task(self._commit(chunk, now)))
            await asyncio.sleep(0)  # it is on its way before the next is worked out
        return done

    async def _commit(self, commits: Sequence[Commit], now: int) -> int:
        done = 0
        for commit, status in zip(commits, await self.store.commit(commits, now), strict=True):
            entry = commit.entry
            self._in_flight.discard(entry.id)
            if status == CommitStatus.DONE:
                done += 1
                del self.waiting[entry.id]
                self.settled[commit.action] += 1
                if commit.action == "rated" and not _verbose():
                    continue
                if commit.problem is not None:
                    log.warning(
                        "dead letter",
                        ladder=self.ladder,
                        source_id=entry.id,
                        reason=commit.problem.reason.value,
                        detail=commit.problem.detail,
                        **_bound(entry),
                    )
                else:
                    log.debug("settled", ladder=self.ladder, outcome=commit.action, **_bound(entry))
            elif status == CommitStatus.CHANGED:  # something changed since it was read: read again
                entry.standings = None
            elif status == CommitStatus.MISSING:  # another worker took it over and settled it
                del self.waiting[entry.id]
            elif isinstance(status, str) and status.startswith(_NO_WRITES):
                raise ResponseError(status)  # nothing is wrong with the message
            elif isinstance(status, str):
                self._count_failure(entry, RuntimeError(status))
        return done

    def _count_failure(self, entry: Entry, error: Exception) -> None:
        entry.attempts += 1
        wait = min(100 * 2 ** min(entry.attempts, 6), 5_000)
        entry.retry_at = time.monotonic() * 1000 + wait
        text = quote(f"{type(error).__name__}: {error}", 300)
        log.error("rating failed", ladder=self.ladder, source_id=entry.id, error=text, **_bound(entry))
        if entry.attempts > self.limits.attempts:
            entry.problem = Problem(Reason.FAILED, f"it failed {entry.attempts - 1} times, last with {text}")

    async def heal(self) -> None:
        """Frees lines and receipts on which messages wait for one that somebody deleted by hand."""
        healed = 0
        for entry in [entry for entry in self.waiting.values() if entry.problem is None]:
            for key in (*(self.store.keys.line(name) for name in entry.players), entry.receipt):
                healed += await self.store.heal(key) if key else 0
        if healed:
            log.warning("freed lines of messages that are gone", ladder=self.ladder, count=healed)

    async def leave(self) -> None:
        """Leaves the group; what could not be settled is taken over by other workers at once."""
        await self.drain()
        left = await self.store.leave(self.consumer)
        self.waiting.clear()
        if left:
            log.info("left messages to the other workers", ladder=self.ladder, count=left)


def _verbose() -> bool:
    return logging.getLogger().isEnabledFor(logging.DEBUG)


def _bound(entry: Entry) -> dict[str, object]:
    """The ids of an entry, made safe for a log line."""
    message = entry.message
    if message is None:
        return {"players": [quote(name, 140) for name in entry.players]}
    if isinstance(message, TournamentFinished):
        return {"tournament_id": message.tournament_id, "players": list(message.podium)}
    return {"match_id": message.match_id, "players": list(message.players)}
