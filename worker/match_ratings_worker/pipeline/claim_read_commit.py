"""One ladder's data in Redis: the scripts of the pipeline as methods on plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from redis.asyncio import Redis

from match_ratings.stream_names import GROUP, MAX_MESSAGE_BYTES, SHADOW_GROUP
from match_ratings_worker.ladder_settings import ensure_adopted, settings_digest
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage import (
    HANDOVER_CONSUMER,
    ClientExecutor,
    CommandExecutor,
    Keys,
    Script,
    stored_fields,
)
from match_ratings_worker.time_units import WINDOW_MS, keep_games_ms

from .commit_arguments import commit_arguments
from .message_batch import BatchSnapshot, Commit, InboxEntry, PlayerState
from .parse_claim_reply import ClaimReply, parse_claim_reply
from .snapshot_request import SnapshotRequest, parse_player

#: Whether a worker was admitted to a ladder, or why not; see join_group.lua.
Admission = Literal["entered", "live", "shadow", "clearing"]

_join, _leave = Script("join_group"), Script("leave_group")
_claim, _read, _commit = Script("claim_messages"), Script("read_batch"), Script("commit_batch")
_unblock, _find_missing = Script("unblock_line"), Script("find_missing_entries")


class LadderStore:
    """One ladder's data. Every method raises redis.exceptions.RedisError when Redis does not answer."""

    def __init__(
        self,
        redis: Redis,
        ladder: str,
        system: RatingSystem,
        *,
        horizon: int,
        executor: CommandExecutor | None = None,
        shadow: bool = False,
    ) -> None:
        """`redis` must return bytes (decode_responses off); `horizon` in ms.

        The scripts go over `executor`, by default one over the client's own commands.
        """
        self.redis = redis
        self.ladder = ladder
        self.executor = executor or ClientExecutor(redis)
        self.keys = keys = Keys(ladder, shadow=shadow)
        self.system = system
        #: Stands for the settings: workers rate only while theirs are the ladder's.
        self.digest = settings_digest(system)
        self._keep_games_ms = keep_games_ms(horizon)
        self._fields = stored_fields(system)
        self._receipt_prefixes = keys.receipt_prefixes
        self._claim_keys = (
            *(keys.inbox, keys.line_, keys.receipt_, keys.prize_receipt_, keys.void_receipt_),
            *(keys.player_, keys.games_, keys.claim_leader, keys.heartbeats),
        )
        self._read_keys = (keys.player_, keys.games_, keys.line_, keys.outbox)
        self._commit_keys = (
            *(keys.inbox, keys.outbox, keys.dead_letters, keys.leaderboard, keys.counts, keys.player_),
            *(keys.games_, keys.line_, keys.open_periods, keys.replay_, keys.settings),
        )

    async def join_group(self) -> Admission:
        """Create the consumer group, and the inbox with it, where they do not exist yet.

        Returns "entered", or why this worker must stay out: the ladder is "live" or a "shadow" and this
        worker is the other, or its shadow is being cleared ("clearing").
        """
        keys = self.keys
        other = GROUP if keys.shadow else SHADOW_GROUP
        shadow_settings = Keys(self.ladder, shadow=True).settings
        reply = await _join(
            self.executor, (keys.inbox, shadow_settings), (keys.group, other, int(keys.shadow))
        )
        admission: Admission = reply.decode()
        return admission

    async def ensure_adopted(self) -> bool:
        """Whether the ladder is rated by this worker's settings; its first worker adopts its own."""
        return await ensure_adopted(self.executor, self.keys, self.system, self.digest)

    async def claim(
        self, consumer: str, what: Literal["new", "own", "stale"], count: int, argument: str | int = ""
    ) -> ClaimReply:
        """Claim up to `count` messages.

        `argument` is for "new" "contended" when much waits for other workers' messages, for "own" the id
        to go on after, for "stale" the ms of silence after which a consumer counts as gone.
        """
        args = (self.keys.group, consumer, what, count, argument, MAX_MESSAGE_BYTES, HANDOVER_CONSUMER)
        reply = await _claim(self.executor, self._claim_keys, (*args, WINDOW_MS, *self._fields))
        return parse_claim_reply(reply, self._receipt_prefixes)

    async def read(self, entries: Sequence[InboxEntry]) -> BatchSnapshot:
        """Read all that `decide` needs for these entries, at one moment.

        What the claim has read is not read again.
        """
        seen = Counter(name for entry in entries for name in entry.players)
        known = [
            entry
            for entry in entries
            if entry.player_states is not None and all(seen[name] == 1 for name in entry.players)
        ]
        if len(known) == len(entries):
            snapshot = BatchSnapshot(max((entry.claimed_at for entry in known), default=0), {}, {}, {})
        else:
            request, known_ids = SnapshotRequest(self.system, self.keys), {entry.id for entry in known}
            for entry in entries:
                if entry.id not in known_ids:
                    request.add(entry)
            snapshot = await self._read(request)
        for entry in known:
            assert entry.player_states is not None
            for name, (values, games) in zip(entry.players, entry.player_states, strict=True):
                snapshot.players[name] = parse_player(values, [entry.id], self.system)
                snapshot.windows[entry.id, name] = games
        return snapshot

    async def read_players(self, names: Sequence[str]) -> dict[str, PlayerState]:
        """Players as stored, without their lines."""
        request = SnapshotRequest(self.system, self.keys)
        request.add_players(names)
        return (await self._read(request)).players

    async def _read(self, request: SnapshotRequest) -> BatchSnapshot:
        return request.parse(await _read(self.executor, self._read_keys, (request.to_json(),)))

    async def commit(self, commits: Sequence[Commit], now: int) -> list[int | str]:
        """Carry the commits out in one step; `now` is the server's time in ms.

        Returns for each a number of `CommitStatus`, or the text of the error that kept it from being done.
        """
        own_fields = self.system.state_fields
        head = (self.keys.group, self._keep_games_ms, self.digest, len(own_fields), *own_fields)
        args = [*head, *commit_arguments(commits, now, self._keep_games_ms)]
        statuses = await _commit(self.executor, self._commit_keys, args)
        return [
            status if isinstance(status, int) else status.decode("utf-8", "replace") for status in statuses
        ]

    async def unblock(self, key: str) -> bool:
        """Remove deleted messages from the head of a line or receipt; return whether any were."""
        args = (self.keys.group, HANDOVER_CONSUMER)
        return bool(await _unblock(self.executor, (self.keys.inbox, key), args))

    async def find_missing(self, ids: Sequence[str]) -> list[str]:
        """Those of these messages that are no longer in the inbox."""
        return [item.decode() for item in await _find_missing(self.executor, (self.keys.inbox,), ids)]

    async def leave_group(self, consumer: str) -> int:
        """Remove a stopping worker from the group; return how many messages it handed over."""
        keys = self.keys
        reply = await _leave(
            self.executor,
            (keys.inbox, keys.busy_shares, keys.claim_leader, keys.heartbeats),
            (keys.group, consumer, HANDOVER_CONSUMER),
        )
        return int(reply)

    async def wait_for_message(self, after: str, ms: int) -> None:
        """Return when a message newer than `after` is there, or after `ms` at the latest."""
        await self.redis.xread({self.keys.inbox: after}, count=1, block=ms)
