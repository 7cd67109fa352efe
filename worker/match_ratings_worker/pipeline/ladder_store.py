"""Redis, for one ladder: the scripts, and what they return as plain values. Nothing else calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import orjson
from redis.asyncio import Redis

from match_ratings import MatchVoided
from match_ratings.stream_names import GROUP, MAX_MESSAGE_BYTES, SHADOW_GROUP
from match_ratings_worker.ladder_settings.adopted_settings import agree, settings_digest
from match_ratings_worker.pipeline.batch import Commit, Entry, Player, Replay, Snapshot
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor, CommandExecutor
from match_ratings_worker.storage.player_states import parse_state, stored_fields
from match_ratings_worker.storage.receipts import Receipt
from match_ratings_worker.storage.stream_ids import stream_id_ms
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER
from match_ratings_worker.units import WINDOW_MS, keep_games_ms

__all__ = ["Claim", "ClaimedEntry", "Side", "Store", "settings_digest"]

#: Whether a worker was let in to a ladder, or whose the ladder is.
Side = Literal["entered", "live", "shadow", "clearing"]


class ClaimedEntry(NamedTuple):
    """A claimed message as the script described it."""

    entry: Entry
    kind: Literal["match", "tournament", "void", ""]
    raw: bytes | None
    size: int
    effect_id: str


class Claim(NamedTuple):
    """What one claim brought."""

    #: The server's time in ms.
    now: int
    #: The id of the stream's newest entry; everything up to it has been delivered to somebody when
    #: a claim of new messages brought none.
    newest: str
    #: For how long another worker alone claims, in ms; 0 when none does.
    leader_ttl_ms: int
    found: list[ClaimedEntry]


class Store:
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
        self.keys = Keys(ladder, shadow=shadow)
        self.system = system
        # A day with a game refreshes this once, and a match may be a little ahead of the clock.
        self._receipts = {
            "match": self.keys.receipt_,
            "tournament": self.keys.prize_receipt_,
            "void": self.keys.void_receipt_,
        }
        keys = self.keys
        self._claim_keys = (
            *(keys.inbox, keys.line_, keys.receipt_, keys.prize_receipt_, keys.void_receipt_),
            *(keys.player_, keys.games_, keys.claim_leader, keys.heartbeats),
        )
        self._keep_games = keep_games_ms(horizon)
        #: Stands for the settings: workers rate only while theirs are the ladder's.
        self.digest = settings_digest(system)
        self._fields = stored_fields(system)
        self._claim, self._read, self._commit = (
            Script("claim_messages"),
            Script("read_batch"),
            Script("commit_messages"),
        )
        self._heal, self._gone = Script("unblock_line"), Script("find_missing_entries")
        self._leave, self._enter = Script("leave_group"), Script("join_group")

    async def join_group(self) -> Side:
        """Creates the consumer group, and the inbox with it, where they do not exist yet.

        Returns "entered", or why this worker must stay out: the ladder is "live" or a "shadow" and this
        worker is the other, or its shadow is being cleared ("clearing").
        """
        keys = self.keys
        other = GROUP if keys.shadow else SHADOW_GROUP
        shadow_settings = Keys(self.ladder, shadow=True).settings
        side = await self._enter(
            self.executor, (keys.inbox, shadow_settings), (keys.group, other, int(keys.shadow))
        )
        found: Side = side.decode()
        return found

    async def agree(self) -> bool:
        """Whether this worker's settings are those that the ladder is rated by.

        The first worker of a ladder adopts its own.
        """
        return await agree(self.executor, self.keys, self.system, self.digest)

    async def claim(
        self, consumer: str, what: Literal["new", "own", "stale"], count: int, argument: str | int = ""
    ) -> Claim:
        """Claims up to `count` messages.

        `argument` is for "new" "contended" when much waits for other workers' messages, for "own" the id
        to go on after, for "stale" the ms of silence after which a consumer counts as gone.
        """
        now, newest, leader_ttl_ms, found = await self._claim(
            self.executor,
            self._claim_keys,
            (
                *(self.keys.group, consumer, what, count, argument, MAX_MESSAGE_BYTES, HANDOVER_CONSUMER),
                *(WINDOW_MS, *self._fields),
            ),
        )
        return Claim(now, newest.decode(), leader_ttl_ms, [self._claimed(item, now) for item in found])

    def _claimed(self, item: list[Any], now: int) -> ClaimedEntry:
        entry_id, attempts, kind, raw, size, alone, effect_id, replay, standings, *players = item
        entry = Entry(entry_id.decode(), attempts, alone=bool(alone), claimed_at=now)
        kind = kind.decode()
        effect = effect_id.decode("utf-8", "surrogateescape")
        if standings:
            entry.standings = standings
        if replay:
            entry.replay = _replay(replay)
        if kind:
            entry.players = tuple([player.decode("utf-8", "surrogateescape") for player in players])
            entry.receipt = self._receipts[kind] + effect
        return ClaimedEntry(entry, kind, raw, size, effect)

    async def read(self, entries: Sequence[Entry]) -> Snapshot:
        """All that `decide` needs for these entries, read in one step.

        What the claim read already is not read again.
        """
        seen = Counter(name for entry in entries for name in entry.players)
        known = [
            entry
            for entry in entries
            if entry.standings is not None and all(seen[name] == 1 for name in entry.players)
        ]
        if len(known) == len(entries):
            snapshot = Snapshot(max((entry.claimed_at for entry in known), default=0), {}, {}, {})
        else:
            passed = {entry.id for entry in known}
            snapshot = await self._read_entries([entry for entry in entries if entry.id not in passed])
        for entry in known:
            assert entry.standings is not None
            for name, (values, games) in zip(entry.players, entry.standings, strict=True):
                snapshot.players[name] = self._player(([], values), [entry.id])
                snapshot.windows[entry.id, name] = games
        return snapshot

    async def _read_entries(self, entries: Sequence[Entry]) -> Snapshot:
        depth: dict[str, int] = {}
        #: The lines of players with one message, alone on them, need not be read.
        lines: dict[str, list[str]] = {}
        windows, window_keys, receipts, voided = [], [], [], []
        void_of: dict[str, str] = {}
        for entry in entries:
            if not entry.alone:
                receipts.append(entry.receipt)
            message = entry.message
            if isinstance(message, MatchVoided):
                void_of[entry.id] = self.keys.receipt(message.match_id)
                voided.append((void_of[entry.id], message.ledger_id or ""))
            elif message is not None:
                # As texts: Lua would print numbers digit by digit, twice for each match.
                opens, closes = str(message.finished_at - WINDOW_MS), f"({message.finished_at}"
            for name in entry.players:
                if entry.alone and name not in depth:
                    depth[name] = 0
                    lines[name] = [entry.id]
                else:
                    depth[name] = (depth.get(name) or len(lines.pop(name, ()))) + 1
                if message is not None and not isinstance(message, MatchVoided):
                    windows.append((name, opens, closes))
                    window_keys.append((entry.id, name))
        wanted = {
            "fields": self._fields,
            "players": list(depth.items()),
            "windows": windows,
            "receipts": receipts,
            "events": voided,
        }
        now, players, counts, texts, events = await self._read(
            self.executor,
            (self.keys.player_, self.keys.games_, self.keys.line_, self.keys.outbox),
            (orjson.dumps(wanted),),
        )
        return Snapshot(
            now=now,
            players={
                name: self._player(stored, lines.get(name))
                for name, stored in zip(depth, players, strict=True)
            },
            windows={
                key: count if isinstance(count, int) else count[1:].decode("utf-8", "replace")
                for key, count in zip(window_keys, counts, strict=True)
            },
            receipts={
                key: Receipt.parse(text)
                for key, text in chain(
                    zip(receipts, texts, strict=True),
                    zip(void_of.values(), (receipt for receipt, _ in events), strict=True),
                )
            },
            events={entry_id: event for entry_id, (_, event) in zip(void_of, events, strict=True) if event},
            match_receipts=void_of,
        )

    async def read_players(self, names: Sequence[str]) -> dict[str, Player]:
        """Players as stored, without their lines."""
        wanted = {"fields": self._fields, "players": [(name, 0) for name in names]}
        wanted |= {"windows": [], "receipts": [], "events": []}
        keys = (self.keys.player_, self.keys.games_, self.keys.line_, self.keys.outbox)
        _, players, *_ = await self._read(self.executor, keys, (orjson.dumps(wanted),))
        return {name: self._player(stored, []) for name, stored in zip(names, players, strict=True)}

    def _player(self, stored: Sequence[Any], ids: list[str] | None) -> Player:
        line, values = stored
        if ids is None:
            ids = [item.decode() for item in line]
        if isinstance(values, bytes):
            return Player(self.system.initial(), 0, ids, fault=values[1:].decode("utf-8", "replace"))
        try:
            return Player(parse_state(values, self.system) or self.system.initial(), int(values[1] or 0), ids)
        except ValueError as error:
            return Player(self.system.initial(), 0, ids, fault=str(error))

    async def commit(self, commits: Sequence[Commit], now: int) -> list[int | str]:
        """Carries the commits out in one step.

        Returns for each 1 (done), 0 (not its turn yet), -1 (no longer in the inbox), or the text of
        the error that kept it from being done.
        """
        keys, system = self.keys, self.system
        args: list[Any] = [
            keys.group,
            self._keep_games,
            self.digest,
            len(system.state_fields),
            *system.state_fields,
        ]
        oldest = now - self._keep_games
        for commit in commits:
            entry = commit.entry
            replay = entry.replay.tag if entry.replay else ""
            receipt: Any = entry.receipt
            players: Sequence[Any] = entry.players
            if commit.action == "dead":  # also an id whose bytes are not UTF-8, as the claim had it
                receipt, *players = [text.encode("utf-8", "surrogateescape") for text in (receipt, *players)]
            args += (commit.action, entry.id, replay, receipt, len(players), *players)
            if commit.action in ("rated", "prize", "void"):
                sure = 1 if entry.alone else 0
                args += (sure, entry.digest, commit.ttl, *commit.game, len(commit.events), *commit.events)
                self._states(args, commit, _oldest_kept(commit, oldest))
            elif commit.action == "closed":
                args += commit.events
                self._states(args, commit, oldest)
            elif commit.action == "not-rated":
                args += (entry.digest, commit.ttl)
            elif commit.action == "duplicate":
                args.append(entry.digest)
            else:
                assert commit.problem is not None
                reason, detail = commit.problem
                replay_of = entry.replay
                first_seen = replay_of.first_seen if replay_of else stream_id_ms(entry.id)
                attempts = entry.attempts + (replay_of.attempts if replay_of else 0)
                history = replay_of.history if replay_of else ""
                args += (reason.value, detail, attempts, first_seen, now, history)
        statuses = await self._commit(
            self.executor,
            (
                keys.inbox,
                keys.outbox,
                keys.dead_letters,
                keys.leaderboard,
                keys.counts,
                keys.player_,
                keys.games_,
                keys.line_,
                keys.open_periods,
                keys.run_,
                keys.settings,
            ),
            args,
        )
        return [
            status if isinstance(status, int) else status.decode("utf-8", "replace") for status in statuses
        ]

    def _states(self, args: list[Any], commit: Commit, oldest: int) -> None:
        for change in commit.changes:
            state, rating = change.state, repr(change.state.rating)
            args += (change.read, change.written, rating if change.listed else "")
            args += (oldest if change.tidy else "", change.closes_at, rating, state.games, state.last_game)
            if state.extra:
                args += [repr(value) for value in state.extra]

    async def heal(self, key: str) -> bool:
        """Frees a line or receipt from a message that is gone; whether anything was put right."""
        return bool(
            await self._heal(self.executor, (self.keys.inbox, key), (self.keys.group, HANDOVER_CONSUMER))
        )

    async def gone(self, ids: Sequence[str]) -> list[str]:
        """Those of these messages that are no longer in the inbox."""
        return [item.decode() for item in await self._gone(self.executor, (self.keys.inbox,), ids)]

    async def leave(self, consumer: str) -> int:
        """Takes a stopping worker out of the group; returns how many messages it left to others."""
        return int(
            await self._leave(
                self.executor,
                (self.keys.inbox, self.keys.busy_shares, self.keys.claim_leader, self.keys.heartbeats),
                (self.keys.group, consumer, HANDOVER_CONSUMER),
            )
        )

    async def wait_for_message(self, after: str, ms: int) -> None:
        """Returns when a message newer than `after` is there, or after `ms` at the latest."""
        await self.redis.xread({self.keys.inbox: after}, count=1, block=ms)


def _oldest_kept(commit: Commit, oldest: int) -> int:
    """The finish, in ms, of the oldest game that a commit leaves in the windows."""
    replay, finished_at = commit.entry.replay, commit.game[1]
    if replay is None or not replay.force_late or not isinstance(finished_at, int):
        return oldest
    return min(oldest, finished_at - WINDOW_MS)  # the next late match may need the same games


def _replay(raw: bytes) -> Replay | None:
    """What a replay added to a message; None when it is not what a replay writes."""
    try:
        data = orjson.loads(raw)
        run, letter = str(data["run"]), str(data["letter"])
        if not run.isalnum() or not letter.replace("-", "").isdigit():
            return None
        return Replay(
            f"{run} {letter}",
            int(data["attempts"]),
            int(data["first_seen"]),
            str(data.get("history", "")),
            bool(data.get("force_late", False)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
