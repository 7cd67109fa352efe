"""Processes one worker's messages of one ladder: claim -> validate -> read -> decide -> commit.

Claimed messages are in memory only as copies: each stays in the inbox until the commit that settles it, so
that a processor can be killed or thrown away at any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import structlog
from redis.exceptions import ResponseError

from match_ratings import Reason
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import parse_stream_id

from .claim_read_commit import LadderStore
from .decide_batch import decide
from .message_batch import Commit, CommitStatus, InboxEntry, LadderRules, Limits
from .parse_claim_reply import ClaimReply
from .validate_claimed import accept_claimed
from .validate_message import Problem

log = structlog.get_logger(__name__)

#: Waiting messages that a probe looks at: as many of the oldest, and as many of the others.
_PROBE: Final = 8
#: The smallest batch whose waiting share says whether workers are in each other's way.
_LEAST_BATCH: Final = 16
#: Messages claimed at first: with many workers and few players, more would only wait.
_FIRST_CLAIM: Final = 32
#: Claims after which a message may be one that kills its worker.
_POISON_ATTEMPTS: Final = 2
#: Beginnings of the errors of a server that accepts no writes at the moment.
_NO_WRITES: Final = ("OOM", "NOREPLICAS", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN")
#: Chunks of commits that may be in flight at once.
_MOST_IN_FLIGHT: Final = 4
#: Pause before the first retry of a failed rating, in ms; it doubles up to the longest.
_FIRST_RETRY_MS: Final = 100
_LONGEST_RETRY_MS: Final = 5_000


@dataclass(slots=True)
class BatchProcessor:
    """Processes the messages of one ladder for one worker."""

    store: LadderStore
    ladder: str
    system: RatingSystem
    consumer: str
    limits: Limits = field(default_factory=Limits)
    #: Claimed and not settled yet, by stream id.
    waiting: dict[str, InboxEntry] = field(default_factory=dict)
    #: Action -> messages settled by this processor.
    settled: Counter[str] = field(default_factory=Counter)
    #: The newest entry of the inbox as of the last claim of new messages.
    newest: str = "0-0"
    #: Time for which another worker is the claim leader, in ms.
    leader_ttl_ms: int = 0
    #: Where the last probe looked.
    _probe_offset: int = 0
    #: Whether much of the last batch had to wait for other workers' messages.
    _contended: bool = False
    #: Messages that are claimed, and looked at, at once: fewer where most of them have to wait.
    _claim_size: int = _FIRST_CLAIM
    #: The server's time at the last claim, in ms.
    _now: int = 0
    #: Commits in flight, oldest first, and the ids of their messages.
    _sent: deque[asyncio.Task[int]] = field(default_factory=deque)
    _in_flight: set[str] = field(default_factory=set)

    async def claim_new(self) -> int:
        """Claim new messages if there is room; return how many."""
        if len(self.waiting) >= self.limits.waiting:
            return 0
        contended = "contended" if self._contended else ""
        count = min(self._claim_size, self.limits.batch)
        reply = await self.store.claim(self.consumer, "new", count, contended)
        self.newest, self.leader_ttl_ms = reply.newest, reply.leader_ttl_ms
        return self._accept(reply)

    async def claim_own(self) -> int:
        """Claim this consumer's own messages again, after a lost reply; return how many."""
        total, after = 0, "0-0"
        while True:
            reply = await self.store.claim(self.consumer, "own", self.limits.batch, after)
            total += self._accept(reply)
            if not reply.found:
                return total
            after = reply.found[-1].entry.id

    async def claim_stale(self) -> int:
        """Take over messages of workers that are gone; return how many."""
        reply = await self.store.claim(self.consumer, "stale", self.limits.batch, self.limits.idle)
        if reply.found:
            count = len(reply.found)
            log.info("took over messages of a worker that is gone", ladder=self.ladder, count=count)
        return self._accept(reply)

    def _accept(self, reply: ClaimReply) -> int:
        self._now = reply.now
        for claimed in reply.found:
            if claimed.entry.id not in self.waiting:
                self.waiting[claimed.entry.id] = accept_claimed(
                    claimed, self._rules(), reply.now, self.limits.attempts
                )
        return len(reply.found)

    def _rules(self) -> LadderRules:
        return LadderRules(self.ladder, self.system, self.limits.horizon)

    async def settle(self, *, probe: bool = False) -> int:
        """Rate and commits the messages whose turn it is; return how many were settled.

        With `probe` looks at a few only: cheap, to find out again and again whether another worker has
        settled the messages that these wait for.
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
            # The oldest, for which most others wait, and each time some others.
            self._probe_offset = (self._probe_offset + _PROBE) % len(entries)
            entries = entries[:_PROBE] + entries[max(self._probe_offset, _PROBE) :][:_PROBE]
        dead = [Commit("dead", entry, problem=entry.problem) for entry in entries if entry.problem]
        done = await self._send(iter(dead), self._now)
        ready = [entry for entry in entries if entry.problem is None and entry.retry_at <= clock]
        # A message that may have killed its worker is rated alone, before and apart from the others.
        for candidate in [entry for entry in ready if entry.attempts > _POISON_ATTEMPTS]:
            done += await self._rate([candidate])
            done += await self.drain()
        ready = [entry for entry in ready if entry.attempts <= _POISON_ATTEMPTS]
        done += await self._rate(ready[: 2 * self._claim_size])
        while self._sent and (self._sent[0].done() or not ready):
            done += await self._sent.popleft()
        return done

    async def drain(self) -> int:
        """Wait for all commits in flight; return how many messages were settled."""
        done = 0
        while self._sent:
            done += await self._sent.popleft()
        return done

    def reset(self) -> None:
        """Forget everything in memory, after a lost connection; all of it is still claimed in Redis."""
        for task in self._sent:
            task.cancel()
        self._sent.clear()
        self._in_flight.clear()
        self.waiting.clear()

    async def _rate(self, entries: Sequence[InboxEntry]) -> int:
        if not entries:
            return 0
        snapshot = await self.store.read(entries)
        failed: dict[str, Exception] = {}
        done = await self._send(decide(entries, snapshot, self._rules(), failed), snapshot.now)
        left = sum(entry.id in self.waiting and entry.id not in self._in_flight for entry in entries)
        if len(entries) >= _LEAST_BATCH:
            self._contended = left * 4 > len(entries)
            if self._contended:
                self._claim_size = max(self._claim_size // 2, _LEAST_BATCH)
            else:
                self._claim_size = max(min(self._claim_size * 2, self.limits.batch), self._claim_size)
        if left == len(entries):  # no message could go: others may have settled some of them
            for entry_id in await self.store.find_missing([entry.id for entry in entries]):
                self.waiting.pop(entry_id, None)
                failed.pop(entry_id, None)
                done += 1
        for entry_id, error in failed.items():
            self._count_failure(self.waiting[entry_id], error)
        return done

    async def _send(self, commits: Iterator[Commit], now: int) -> int:
        """Send commits in chunks without waiting for the last: Redis carries out one chunk while the next
        is computed here, and the next batch reads the data that these have written.
        """
        done = 0
        while chunk := list(islice(commits, self.limits.chunk)):
            while len(self._sent) >= _MOST_IN_FLIGHT:
                done += await self._sent.popleft()
            self._in_flight.update(commit.entry.id for commit in chunk)
            self._sent.append(asyncio.create_task(self._commit(chunk, now)))
            await asyncio.sleep(0)  # it is on its way before the next is computed
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
                if commit.action != "rated" or _is_verbose():
                    self._log_settled(commit)
            elif status == CommitStatus.CHANGED:
                entry.player_states = None  # to be read again
            elif status == CommitStatus.MISSING:
                del self.waiting[entry.id]
            elif isinstance(status, str) and status.startswith(_NO_WRITES):
                raise ResponseError(status)  # nothing is wrong with the message
            elif isinstance(status, str):
                self._count_failure(entry, RuntimeError(status))
        return done

    def _log_settled(self, commit: Commit) -> None:
        ids = _log_ids(commit.entry)
        if commit.problem is None:
            log.debug("settled", ladder=self.ladder, outcome=commit.action, **ids)
        else:
            log.warning(
                "dead letter",
                ladder=self.ladder,
                source_id=commit.entry.id,
                reason=commit.problem.reason.value,
                detail=commit.problem.detail,
                **ids,
            )

    def _count_failure(self, entry: InboxEntry, error: Exception) -> None:
        entry.attempts += 1
        pause = min(_FIRST_RETRY_MS * 2 ** min(entry.attempts, 6), _LONGEST_RETRY_MS)
        entry.retry_at = time.monotonic() * 1000 + pause
        text = quote(f"{type(error).__name__}: {error}", 300)
        log.error("rating failed", ladder=self.ladder, source_id=entry.id, error=text, **_log_ids(entry))
        if entry.attempts > self.limits.attempts:
            entry.problem = Problem(Reason.FAILED, f"it failed {entry.attempts - 1} times, last with {text}")

    async def unblock(self) -> None:
        """Unblock the lines and receipts on which messages wait for deleted entries."""
        unblocked = 0
        for entry in [entry for entry in self.waiting.values() if entry.problem is None]:
            for key in (*(self.store.keys.line(name) for name in entry.players), entry.receipt):
                unblocked += await self.store.unblock(key) if key else 0
        if unblocked:
            log.warning("unblocked lines of deleted messages", ladder=self.ladder, count=unblocked)

    async def shut_down(self) -> None:
        """Leave the group; unsettled messages go to other workers at once."""
        await self.drain()
        count = await self.store.leave_group(self.consumer)
        self.waiting.clear()
        if count:
            log.info("handed messages over to other workers", ladder=self.ladder, count=count)


def _is_verbose() -> bool:
    return logging.getLogger().isEnabledFor(logging.DEBUG)


def _log_ids(entry: InboxEntry) -> dict[str, object]:
    """The ids of an entry, safe for a log line."""
    message = entry.message
    if message is None:
        return {"players": [quote(name, 140) for name in entry.players]}
    name = "tournament_id" if message.kind == "tournament" else "match_id"
    return {name: message.effect_id, "players": list(message.player_ids)}
