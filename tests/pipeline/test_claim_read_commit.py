"""The Lua scripts through store and engine: claim, lines, reservations, commit, dead letters, heal, leave.

Each test runs on a fake server and on a real one. Its tools are small: `send` puts raw messages into the
inbox, `Crew` makes engines that share a ladder as workers do, and `dump` is all that the ladder has in Redis.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from embedded import Server
from match_ratings import DeadLetter, MatchFinished
from match_ratings.stream_names import FIELD, GROUP
from match_ratings_worker.pipeline.consume_and_take_over import StreamConsumer
from match_ratings_worker.pipeline.decide_batch import decide
from match_ratings_worker.pipeline.message_batch import Commit, LadderRules
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon, Game, Outcome, State
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER
from tests.support.clock import DAY
from tests.support.ladder_harness import LadderHarness
from tests.support.model import HORIZON, match, raw, tournament
from tests.support.waiting import eventually


class Crew(LadderHarness):
    """Engines of one ladder."""

    async def send(self, *messages: dict[str, Any] | bytes | None) -> list[str]:
        """Makes the group when there is none."""
        await self.store.join_group()
        await self.store.ensure_adopted()
        return await super().send(*messages)

    async def letters(self) -> list[DeadLetter]:
        """The dead letters as their readers read them."""
        entries = await self.redis.xrange(self.keys.dead_letters)
        return [
            DeadLetter.model_validate(
                {
                    name.decode(): value if name == b"message" else _number(value.decode())
                    for name, value in fields.items()
                }
            )
            for _, fields in entries
        ]

    async def line(self, player: str) -> list[str]:
        return [entry_id.decode() for entry_id in await self.redis.lrange(self.keys.line(player), 0, -1)]

    async def pending(self) -> dict[str, tuple[str, int]]:
        """Claimed messages: id -> (consumer, attempts)."""
        found = await self.redis.xpending_range(self.keys.inbox, GROUP, "-", "+", 1000)
        return {
            item["message_id"].decode(): (item["consumer"].decode(), item["times_delivered"])
            for item in found
        }

    async def finished(self) -> bool:
        """Whether nothing is left: no message, no claim, no line, no reservation."""
        keys = await self.redis.keys(f"ratings:{{{self.ladder}}}:line:*")
        receipts = [
            await self.redis.get(key) for key in await self.redis.keys(f"ratings:{{{self.ladder}}}:receipt:*")
        ]
        return (
            not await self.redis.xlen(self.keys.inbox)
            and not await self.pending()
            and not keys
            and not any(receipt.startswith(b"?") for receipt in receipts if receipt)
        )


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else text


@pytest.fixture
def crew(client: Redis, ladder: str) -> Crew:
    return Crew(client, ladder)


async def work(engine: BatchProcessor) -> int:
    """One round of an engine; returns how many messages it settled."""
    done = await engine.settle()
    return done + await engine.drain()


async def finish(engine: BatchProcessor) -> None:
    """Works until nothing is left for this engine, its failed ratings tried again without a pause."""
    for _ in range(200):
        await engine.claim_stale()
        came = await engine.claim_new()
        for entry in engine.waiting.values():
            entry.retry_at = 0
        done = await work(engine)
        if not came and not done and not engine.waiting:
            return
    raise AssertionError(f"not finished; it holds {list(engine.waiting)}")


async def dump(crew: Crew) -> dict[str, Any]:
    return await crew.dump(without=("settings", "settings-history"))


@contextmanager
def running(intake: StreamConsumer) -> Iterator[asyncio.Task[None]]:
    """An intake at work; it is stopped at the end, and must still be running then."""
    task = asyncio.create_task(intake.run())
    try:
        yield task
    finally:
        died = task.done()
        task.cancel()
    assert not died, task


# Claim and lines


async def test_a_claim_queues_each_message_on_the_lines_of_both_players(crew: Crew) -> None:
    # Given three messages; when two engines claim them in turn
    ids = await crew.send(
        match("m-1", ("ada", "bob")), match("m-2", ("bob", "cyd")), tournament("t-1", ("cyd", "ada", "bob"))
    )
    one, other = crew.engine("one", batch=1), crew.engine("other", batch=9)
    assert (await one.claim_new(), await other.claim_new(), await one.claim_new()) == (1, 2, 0)
    # Then every line has the order of the stream, and each message one owner
    assert await crew.line("ada") == [ids[0], ids[2]]
    assert await crew.line("bob") == ids
    assert await crew.line("cyd") == ids[1:]
    assert await crew.pending() == {ids[0]: ("one", 1), ids[1]: ("other", 1), ids[2]: ("other", 1)}
    assert (list(one.waiting), list(other.waiting)) == (ids[:1], ids[1:])


async def test_a_claim_describes_what_it_queued(crew: Crew) -> None:
    messages: list[dict[str, Any] | bytes | None] = [
        match("m", ("é\U0001f3b2", "x}y")),
        tournament("t"),
        b"\xff\x00{",
        None,
    ]
    ids = await crew.send(*messages)
    claim = await crew.store.claim("one", "new", 10)
    assert abs(claim.now - crew.now) < 600_000 and claim.newest == ids[-1]
    assert [(item.entry.id, item.entry.attempts, item.kind, item.effect_id) for item in claim.found] == [
        (ids[0], 1, "match", "m"),
        (ids[1], 1, "tournament", "t"),
        (ids[2], 1, "", ""),
        (ids[3], 1, "", ""),
    ]
    assert [item.entry.players for item in claim.found] == [("é\U0001f3b2", "x}y"), ("ada", "bob"), (), ()]
    assert [item.raw for item in claim.found[2:]] == [b"\xff\x00{", None]


@pytest.mark.parametrize("count", [0, 3])
async def test_a_claim_of_nothing_says_what_is_newest(crew: Crew, count: int) -> None:
    ids = await crew.send(*[match(f"m-{n}") for n in range(count)])
    await crew.store.claim("one", "new", 10)
    claim = await crew.store.claim("one", "new", 10)
    assert claim.found == [] and claim.newest == (ids[-1] if ids else "0-0")


@pytest.mark.parametrize(
    "message",
    [
        match("m", ("ada", "ada")),
        match("m") | {"players": ["ada"]},
        match("m") | {"players": ["ada", "bob", "cyd"]},
        match("m") | {"players": {"1": "ada", "2": "bob"}},
        match("m") | {"players": ["ada", None]},
        match("m") | {"players": ["ada", 7]},
        match("m") | {"players": ["ada", ""]},
        match("") | {"match_id": 7},
        match("x" * 600),
        tournament("t") | {"podium": [f"p{n}" for n in range(17)]},
        tournament("t") | {"podium": []},
    ],
)
async def test_what_no_line_can_hold_is_queued_nowhere_and_still_claimed(
    crew: Crew, message: dict[str, Any]
) -> None:
    await crew.send(message)
    [found] = (await crew.store.claim("one", "new", 10)).found
    assert (found.kind, found.entry.players) == ("", ())
    assert list(await dump(crew)) == [crew.keys.inbox]
    # And it becomes a dead letter all the same
    engine = crew.engine("one")
    await engine.claim_own()
    assert await work(engine) == 1
    assert [letter.reason.value for letter in await crew.letters()] in (["invalid"], ["self-play"])
    assert await crew.finished()


async def test_own_takes_up_what_this_consumer_holds_and_queues_nothing_twice(crew: Crew) -> None:
    # Given an engine that has lost the replies to its claims
    ids = await crew.send(*[match(f"m-{n}") for n in range(5)])
    engine = crew.engine("one", batch=2)
    other = crew.engine("other", batch=1)
    await other.claim_new()
    for _ in range(2):
        await crew.store.claim("one", "new", 2)
    # When it takes up its own
    assert await engine.claim_own() == 4
    assert await engine.claim_own() == 4  # asking again is harmless
    # Then it has all of them, as often attempted as before, and the lines are as they were
    assert list(engine.waiting) == ids[1:]
    assert await crew.line("ada") == ids
    assert set((await crew.pending()).values()) == {("one", 1), ("other", 1)}


async def test_own_goes_on_past_messages_that_somebody_deleted(crew: Crew) -> None:
    # Given claimed messages, the first of them deleted by hand
    ids = await crew.send(*[match(f"m-{n}") for n in range(6)])
    await crew.store.claim("one", "new", 6)
    await crew.redis.xdel(crew.keys.inbox, *ids[:3])
    # When the engine takes up its own in steps smaller than that
    engine = crew.engine("one", batch=2)
    await engine.claim_own()
    # Then it finds those behind them: nobody else would, as long as this worker lives
    assert list(engine.waiting) == ids[3:]


async def test_stale_takes_over_from_the_silent_only(crew: Crew) -> None:
    ids = await crew.send(match("m-1"), match("m-2"))
    gone = crew.engine("gone", batch=1)
    await gone.claim_new()
    # Given a limit that nobody has reached, nothing is taken; with a limit of nothing, all is
    assert await crew.engine("two", idle=3_600_000).claim_stale() == 0
    taker = crew.engine("three", idle=0)
    assert await taker.claim_stale() == 1
    assert await crew.pending() == {ids[0]: ("three", 2)}
    # And a consumer that is gone and holds nothing is deleted
    await taker.claim_stale()
    names = {info["name"] for info in await crew.redis.xinfo_consumers(crew.keys.inbox, GROUP)}
    assert names == {b"three"}


async def test_stale_takes_no_more_than_asked_for(crew: Crew) -> None:
    ids = await crew.send(*[match(f"m-{n}") for n in range(5)])
    for name, count in (("gone-1", 2), ("gone-2", 3)):
        await crew.store.claim(name, "new", count)
    taker = crew.engine("taker", batch=4)
    assert await taker.claim_stale() == 4
    assert await taker.claim_stale() == 1
    assert sorted(taker.waiting) == ids


async def test_a_message_deleted_by_hand_is_not_taken_over(crew: Crew) -> None:
    ids = await crew.send(match("m-1"), match("m-2"))
    await crew.store.claim("gone", "new", 2)
    await crew.redis.xdel(crew.keys.inbox, ids[0])
    taker = crew.engine("taker")
    await taker.claim_stale()
    assert list(taker.waiting) == [ids[1]]
    assert list(await crew.pending()) == [ids[1]]


async def test_suspects_are_taken_one_at_a_time(crew: Crew) -> None:
    # Given messages whose workers have gone twice
    ids = await crew.send(*[match(f"m-{n}") for n in range(4)])
    await crew.engine("first").claim_new()
    await crew.engine("second").claim_stale()
    assert {attempts for _, attempts in (await crew.pending()).values()} == {2}
    # When a third worker takes over
    third = crew.engine("third")
    assert await third.claim_stale() == 1
    assert await crew.pending() == {ids[0]: ("third", 3), **dict.fromkeys(ids[1:], ("second", 2))}
    # And that one dies of it, then only this message has used up an attempt
    fourth = crew.engine("fourth")
    while await fourth.claim_stale():
        pass
    assert {entry_id: attempts for entry_id, (_, attempts) in (await crew.pending()).items()} == {
        ids[0]: 4,
        **dict.fromkeys(ids[1:], 3),
    }
    await finish(fourth)
    assert len(await crew.events()) == 4 and await crew.finished()


async def test_messages_left_in_good_order_are_no_suspects(crew: Crew) -> None:
    # Given messages that wait while one worker after another is stopped in good order, as in a rolling update
    ids = await crew.send(*[match(f"m-{n}") for n in range(4)])
    for number in range(12):
        engine = crew.engine(f"worker-{number}", attempts=5)
        await (engine.claim_stale() if number else engine.claim_new())
        await engine.shut_down()
    # Then nobody has died of them: the next worker has all of them at once, and rates them
    last = crew.engine("last", attempts=5)
    assert await last.claim_stale() == len(ids)
    await finish(last)
    assert len(await crew.events()) == 4 and await crew.letters() == []


# Reservations


@pytest.mark.parametrize("engines", [1, 2, 3])
@pytest.mark.parametrize("backwards", [False, True])
async def test_a_conflict_between_different_players_is_decided_in_stream_order(
    crew: Crew, engines: int, backwards: bool
) -> None:
    # Given one id with three contents and no player in common, each in another worker's hands
    ids = await crew.send(
        match("m", ("ada", "bob")),
        match("m", ("cyd", "dan")),
        match("m", ("eve", "fay")),
        match("m", ("ada", "bob")),
    )
    workers = [crew.engine(f"w-{n}", batch=-(-4 // engines)) for n in range(engines)]
    for worker in workers:
        await worker.claim_new()
    # When they work, the last one first or the first one first
    for _ in range(3):
        for worker in reversed(workers) if backwards else workers:
            await work(worker)
    # Then the first in the stream was rated, and nothing else
    assert [event.players[0].player for event in await crew.events()] == ["ada"]
    assert sorted((letter.source_id, letter.reason.value) for letter in await crew.letters()) == [
        (ids[1], "conflict"),
        (ids[2], "conflict"),
    ]
    assert await crew.redis.hgetall(crew.keys.counts) == {
        b"rated": b"1",
        b"dead:conflict": b"2",
        b"duplicate": b"1",
    }
    assert await crew.finished()


@pytest.mark.parametrize(
    "first", [match("m", winner=None), match("m", cube=3), match("m", finished_at=1), match("m", mode="x")]
)
async def test_a_first_message_that_is_bad_leaves_the_id_to_the_next(
    crew: Crew, first: dict[str, Any]
) -> None:
    # Given a bad message and good ones of the same id and other players, each in another worker's hands
    await crew.send(first, match("m", ("cyd", "dan")), match("m", ("eve", "fay")))
    one, other, third = (crew.engine(name, batch=1) for name in ("one", "other", "third"))
    for engine in (one, other, third):
        await engine.claim_new()
    # Then the good ones wait for the bad one to be set aside, and the first of them is rated then
    assert await work(other) == 0 and await work(third) == 0
    assert await work(one) == 1
    assert await work(third) == 0
    assert await work(other) == 1
    assert await work(third) == 1
    assert [event.players[0].player for event in await crew.events()] == ["cyd"]
    assert [letter.reason.value for letter in await crew.letters()] in (
        [["invalid", "conflict"], ["too-late", "conflict"]]
    )
    assert await crew.finished()


async def test_a_conflict_is_none_before_the_first_has_had_its_effect(crew: Crew) -> None:
    # Given two contents of one id in one batch, of which the first turns out to be impossible to write
    await crew.send(match("m", ("ada", "bob")), match("m", ("cyd", "dan")))
    engine = crew.engine("one", attempts=3)
    await engine.claim_new()
    snapshot = await engine.store.read(list(engine.waiting.values()))
    commits = list(decide(engine.waiting.values(), snapshot, LadderRules(crew.ladder, crew.system, HORIZON)))
    await crew.redis.set(crew.keys.player("bob"), "no hash")
    await engine.store.commit(commits, crew.now)
    # When all is worked through
    engine.reset()
    await engine.claim_own()
    await finish(engine)
    # Then the first has failed, and the second was rated as if it were alone
    assert [letter.reason.value for letter in await crew.letters()] == ["failed"]
    assert [event.players[0].player for event in await crew.events()] == ["cyd"]


# Commit


async def prepared(crew: Crew, *messages: dict[str, Any]) -> tuple[BatchProcessor, list[Commit]]:
    """An engine that has claimed and decided, and what it is about to commit."""
    await crew.send(*messages)
    engine = crew.engine("one")
    await engine.claim_new()
    snapshot = await engine.store.read(list(engine.waiting.values()))
    found = decide(engine.waiting.values(), snapshot, LadderRules(crew.ladder, crew.system, HORIZON))
    return engine, list(found)


async def test_a_commit_writes_everything_of_a_match(crew: Crew) -> None:
    # Given one match
    engine, commits = await prepared(crew, match("m-1", cube=2))
    # When it is committed
    assert await engine.store.commit(commits, crew.now) == [1]
    # Then ratings, windows, receipt, leaderboard and event are there, and the message is gone
    found = await dump(crew)
    [(ledger_id, fields)] = found.pop(crew.keys.outbox)
    assert json.loads(fields[b"message"])["match_id"] == "m-1"
    assert found.pop(crew.keys.receipt("m-1")).split() == [ledger_id, commits[0].entry.digest.encode()]
    state = {b"sequence": b"1", b"games": b"1", b"last_game": str(crew.now).encode()}
    assert found == {
        crew.keys.inbox: [],
        crew.keys.player("ada"): {b"rating": b"1519", **state},
        crew.keys.player("bob"): {b"rating": b"1481", **state},
        crew.keys.games("ada"): [(b"m-1", crew.now)],
        crew.keys.games("bob"): [(b"m-1", crew.now)],
        crew.keys.leaderboard: [(b"bob", 1481.0), (b"ada", 1519.0)],
        crew.keys.counts: {b"rated": b"1"},
    }
    assert await crew.pending() == {}
    # And what is kept for a time only outlives the horizon, and the window before it
    assert await crew.redis.pttl(crew.keys.receipt("m-1")) > HORIZON
    assert await crew.redis.pttl(crew.keys.games("ada")) > HORIZON + 7 * DAY
    assert await crew.redis.pttl(crew.keys.player("ada")) == -1


async def test_a_commit_carried_out_twice_changes_nothing_the_second_time(crew: Crew) -> None:
    # Given a commit whose reply was lost, so that it is sent again
    engine, commits = await prepared(
        crew, match("m-1"), match("m-2"), match("m-2", cube=2), match("m-3", mode="boosted")
    )
    assert await engine.store.commit(commits, crew.now) == [1] * 4
    before = await dump(crew)
    assert await engine.store.commit(commits, crew.now) == [-1] * 4
    assert await dump(crew) == before


async def test_a_worker_that_lost_its_claim_is_turned_away(crew: Crew) -> None:
    # Given a worker that has decided, while another took over and settled all of it and more
    engine, commits = await prepared(crew, match("m-1"), match("m-2"), match("m-2"), tournament("t-1"))
    await crew.send(match("m-4"))
    taker = crew.engine("taker")
    await finish(taker)
    before = await dump(crew)
    # When it wakes up and commits
    assert await engine.store.commit(commits, crew.now) == [-1] * 4
    # Then nothing has changed
    assert await dump(crew) == before


async def test_a_worker_that_lost_its_claim_lets_go_of_what_it_held(crew: Crew) -> None:
    # Given a worker that was asleep while others settled what it had claimed, not alone on its lines
    await crew.send(*[match(f"m-{n}") for n in range(6)])
    sleeper = crew.engine("sleeper", waiting=6, idle=3_600_000)
    await sleeper.claim_new()
    await finish(crew.engine("taker"))
    assert len(await crew.events()) == 6
    # When it wakes up, with no room for more, and a new match comes
    with running(StreamConsumer(sleeper)):
        await crew.send(match("m-7"))
        # Then it finds out and rates the new one
        await eventually(crew.finished)
    assert len(await crew.events()) == 7
    assert await crew.redis.hget(crew.keys.player("ada"), "sequence") == b"7"


async def test_a_match_whose_turn_it_is_not_waits(crew: Crew) -> None:
    # Given a worker that has decided when its match was next, and a line that says otherwise since
    engine, commits = await prepared(crew, match("m-1"))
    await crew.redis.lpush(crew.keys.line("bob"), "0-5")
    before = await dump(crew)
    assert await engine.store.commit(commits, crew.now) == [0]
    assert await dump(crew) == before


@pytest.mark.parametrize("message", [match("m-1"), tournament("t-1")])
@pytest.mark.parametrize("player", ["ada", "bob"])
async def test_a_rating_changed_by_another_way_is_not_overwritten(
    crew: Crew, message: dict[str, Any], player: str
) -> None:
    # Given a decided match, and an import that changes a player's rating and sequence meanwhile
    engine, commits = await prepared(crew, message)
    await crew.redis.hset(
        crew.keys.player(player), mapping={"rating": 2000, "sequence": 1, "games": 0, "last_game": 0}
    )
    before = await dump(crew)
    # When it is committed, nothing happens; when it is decided anew, the import stands before it
    assert await engine.store.commit(commits, crew.now) == [0]
    assert await dump(crew) == before
    await finish(engine)
    [event] = await crew.events()
    [part] = [part for part in event.players if part.player == player]
    assert (part.before, part.sequence) == (2000, 2)


@pytest.mark.parametrize(
    "messages",
    [[match("m-1")], [match("m-1", mode="boosted")], [match("m-1"), match("m-1")], [tournament("m-1")]],
    ids=["rated", "not-rated", "duplicate", "prize"],
)
@pytest.mark.parametrize("receipt", ["? 0-1", "? 0-1 {}", "5-5 0123456789abcdef", "- 0123456789abcdef"])
async def test_a_receipt_that_changed_since_it_was_read_is_obeyed(
    crew: Crew, messages: list[dict[str, Any]], receipt: str
) -> None:
    # Given messages that were claimed behind others and have been decided since
    await crew.send(match("m-0"))
    other = crew.engine("other")
    await other.claim_new()
    ids = await crew.send(*messages)
    engine = crew.engine("one")
    await engine.claim_new()
    await work(other)
    snapshot = await engine.store.read(list(engine.waiting.values()))
    commits = list(decide(engine.waiting.values(), snapshot, LadderRules(crew.ladder, crew.system, HORIZON)))
    assert len(commits) == len(messages)
    # When the receipt turns out to be another's
    await crew.redis.set(commits[0].entry.receipt, receipt.format(ids[0]))
    before = await dump(crew)
    # Then they wait
    assert await engine.store.commit(commits, crew.now) == [0] * len(messages)
    assert await dump(crew) == before


async def test_the_batchs_later_messages_build_on_its_earlier_ones_or_wait(crew: Crew) -> None:
    # Given two matches of a player in one commit, of which the first must wait
    engine, commits = await prepared(crew, match("m-1", ("ada", "bob")), match("m-2", ("ada", "cyd")))
    await crew.redis.hset(crew.keys.player("bob"), "sequence", 3)
    assert await engine.store.commit(commits, crew.now) == [0, 0]
    assert await crew.events() == []


async def test_many_players_in_one_commit(crew: Crew) -> None:
    # Given as many messages in one commit as can be set, each with as many players as it may have
    messages = [
        tournament(f"t-{n}", tuple(f"p-{n}-{i}" for i in range(16)), prizes=[1] * 16) for n in range(256)
    ]
    await crew.send(*messages)
    engine = crew.engine("one", batch=256, chunk=256)
    await finish(engine)
    # Then all of it is there, the leaderboard too
    assert len(await crew.events()) == 256
    assert await crew.redis.zcard(crew.keys.leaderboard) == 256 * 16
    assert await crew.redis.hgetall(crew.keys.counts) == {b"prize": b"256"}


async def test_games_out_of_every_window_are_forgotten(crew: Crew) -> None:
    # Given old games, some of which a match at the horizon could still count
    old = {"out": crew.now - HORIZON - 12 * DAY, "in": crew.now - HORIZON - 7 * DAY}
    await crew.redis.zadd(crew.keys.games("ada"), old)
    await crew.send(match("m-1"))
    await finish(crew.engine("one"))
    assert set(await crew.redis.zrange(crew.keys.games("ada"), 0, -1)) == {b"in", b"m-1"}
    # Then that match counts them
    await crew.send(
        match("m-2", finished_at=crew.now - HORIZON + 60_000), match("m-3", finished_at=crew.now + 1)
    )
    await crew.redis.zadd(crew.keys.games("ada"), {"in": crew.now - HORIZON - 7 * DAY + 60_000})
    await finish(crew.engine("one"))
    assert [event.players[0].recent_games for event in await crew.events()] == [0, 1, 1]


# Keys of the wrong type


@pytest.mark.parametrize(
    "what", ["player", "games", "line", "receipt", "outbox", "leaderboard", "counts", "dead_letters"]
)
@pytest.mark.parametrize(
    "message",
    [match("m-1"), tournament("m-1"), match("m-1", mode="boosted")],
    ids=["match", "prize", "not-rated"],
)
async def test_a_commit_that_meets_a_wrong_type_does_nothing_by_half(
    crew: Crew, what: str, message: dict[str, Any]
) -> None:
    # Given a decided message, and a key that turns into something else before the commit
    engine, commits = await prepared(crew, message)
    key = getattr(crew.keys, what + "_", "") + ("m-1" if what == "receipt" else "bob")
    if what in ("outbox", "leaderboard", "counts", "dead_letters"):
        key = getattr(crew.keys, what)
    await crew.redis.delete(key)
    await (crew.redis.lpush(key, "x") if what in ("receipt", "player") else crew.redis.set(key, "x"))
    before = await dump(crew)
    # When it is committed
    try:
        [status] = await engine.store.commit(commits, crew.now)
    except ResponseError:
        status = "refused"
    # Then either the commit did not need that key and did all of it, or nothing at all has changed
    after = await dump(crew)
    if status == 1:
        assert not after[crew.keys.inbox] and await crew.pending() == {}
        assert len(after.get(crew.keys.outbox, [])) == (0 if "mode" in message else 1)
        assert what in ("games", "receipt", "player", "line")
        if what != "receipt":  # a match that is alone overwrites its own receipt
            assert after[key] == before[key]
    else:
        assert after == before


@pytest.mark.parametrize("what", ["player", "games", "line", "receipt"])
async def test_a_players_key_of_the_wrong_type_costs_only_that_players_matches(
    redis: Redis, ladder: str, what: str
) -> None:
    # Given a key of one player, or one match, that somebody has used for something else
    crew = Crew(redis, ladder)  # not the fake server: an error that a script catches there is no error
    bad = {"player": "bob", "games": "bob", "line": "bob", "receipt": "m-1"}[what]
    key = getattr(crew.keys, what)(bad)
    await (crew.redis.set(key, "x") if what != "receipt" else crew.redis.lpush(key, "x"))
    messages = [
        match("m-0", ("cyd", "dan")),
        match("m-1", ("ada", "bob")),
        match("m-2", ("cyd", "eve")),
        match("m-3", ("ada", "dan")),
    ]
    ids = await crew.send(*messages)
    # When an engine works, as its loop does: an error is no reason to end
    engine = crew.engine("one", attempts=4)
    for _ in range(40):
        try:
            await engine.claim_own()
            await engine.claim_new()
            for entry in engine.waiting.values():
                entry.retry_at = 0
            await work(engine)
        except ResponseError:
            engine.reset()
    # Then the others are rated, in order, and this one is kept as a dead letter
    assert [event.match_id for event in await crew.events()] == ["m-0", "m-2", "m-3"]
    assert [(letter.source_id, letter.message) for letter in await crew.letters()] == [
        (ids[1], raw({"finished_at": crew.now, **messages[1], "ladder": crew.ladder}))
    ]
    assert not await crew.pending() and not await crew.redis.xlen(crew.keys.inbox)


@pytest.mark.parametrize(
    "stored",
    [
        {"rating": "x"},
        {"sequence": "x"},
        {"rating": "1500", "sequence": "x"},
        {"rating": "1500", "games": "1.5"},
    ],
)
async def test_a_state_that_is_no_number_costs_only_that_players_matches(
    crew: Crew, stored: dict[str, str]
) -> None:
    await crew.redis.hset(crew.keys.player("bob"), mapping=stored)
    await crew.send(match("m-1", ("ada", "bob")), match("m-2", ("ada", "cyd")))
    await finish(crew.engine("one", attempts=3))
    assert [letter.reason.value for letter in await crew.letters()] == ["failed"]
    assert "bob" in (await crew.letters())[0].detail
    assert [event.match_id for event in await crew.events()] == ["m-2"]
    assert await crew.redis.hgetall(crew.keys.player("bob")) == {
        name.encode(): value.encode() for name, value in stored.items()
    }


# Dead letters

TEXTS = [
    b"",
    json.dumps(match("m", ("\ud800", "bob"))).encode(),
    raw(match("m\x00", ("a\x00", "b\n"))),
    b"x" * 1_000_000,
    b'{"match_id":"' + b"x" * 100_000 + b'"}',
    b"[" * 15_000,
]
#: The fake server cannot hand these to a script.
BYTES = [
    b"\x00\xff\xfe\r\n not JSON",
    bytes(range(256)),
    b'{"match_id":"m","players":["\xff","bob"],"winner":"bob","finished_at":1}',
    b'{"match_id":"\xc3(","players":["ada","bob"],"winner":"bob","finished_at":1}',
    b'{"type":"tournament-finished","tournament_id":"\xf0\x9f","podium":["\xed\xa0\x80"],"public":true}',
    b'{"type":"match-voided","match_id":"\xff","players":["ada","\xfe"],"finished_at":1}',
]


async def keeps_exactly_and_blocks_nobody(crew: Crew, message: bytes) -> None:
    # Given bad bytes between good messages
    ids = await crew.send(match("m-1"), message, match("m-2", ("bob", "ada")))
    engine = crew.engine("one")
    await engine.claim_new()
    # When the batch is worked on
    await work(engine)
    # Then the good ones are rated and the bad one is kept with what a person needs
    [letter] = await crew.letters()
    assert letter.message == message
    assert letter.reason.value in ("malformed", "invalid")
    assert (letter.source_id, letter.attempts) == (ids[1], 1)
    assert letter.first_seen == int(ids[1].split("-")[0]) and letter.first_seen <= letter.dead_at
    assert letter.detail and letter.detail.isprintable()
    assert [event.match_id for event in await crew.events()] == ["m-1", "m-2"]
    assert await crew.finished()


@pytest.mark.parametrize("message", TEXTS, ids=range(len(TEXTS)))
async def test_a_dead_letter_keeps_the_message_exactly_and_blocks_nobody(crew: Crew, message: bytes) -> None:
    await keeps_exactly_and_blocks_nobody(crew, message)


@pytest.mark.parametrize("message", BYTES, ids=range(len(BYTES)))
async def test_a_dead_letter_keeps_bytes_that_are_no_text(redis: Redis, ladder: str, message: bytes) -> None:
    await keeps_exactly_and_blocks_nobody(Crew(redis, ladder), message)


async def test_no_bytes_end_the_loop(redis: Redis, ladder: str) -> None:
    crew = Crew(redis, ladder)
    await crew.send(*TEXTS, *BYTES, match("m-1"))
    with running(StreamConsumer(crew.engine("one", idle=3_600_000))):
        await eventually(crew.finished)
    assert len(await crew.events()) == 1
    assert [letter.message for letter in await crew.letters()] == [*TEXTS, *BYTES]


async def test_an_entry_without_the_field_is_kept_whole(crew: Crew) -> None:
    await crew.store.join_group()
    await crew.redis.xadd(crew.keys.inbox, {"msg": raw(match("m-1")), "Message": "x"})
    await finish(crew.engine("one"))
    [letter] = await crew.letters()
    assert letter.reason.value == "malformed"
    assert json.loads(letter.message) == ["msg", raw(match("m-1")).decode(), "Message", "x"]
    assert await crew.finished()


async def test_further_fields_of_an_entry_do_not_matter(crew: Crew) -> None:
    await crew.store.join_group()
    message = raw({**match("m-1"), "finished_at": crew.now, "ladder": crew.ladder})
    await crew.redis.xadd(crew.keys.inbox, {"sent_by": b"\xff", FIELD: message, "x": ""})
    await finish(crew.engine("one"))
    assert len(await crew.events()) == 1


async def test_what_two_parsers_read_differently_is_never_rated(crew: Crew) -> None:
    # Given a message that the script reads with other players than Python: its answer is changed here
    [entry_id] = await crew.send(match("m-1", ("ada", "bob")))
    engine = crew.engine("one")
    claim = await engine.store.claim("one", "new", 1)
    claim.found[0].entry.players = ("ada", "eve")
    engine._accept(claim)
    # Then it is a dead letter, and frees the lines on which it was put
    assert await work(engine) == 1
    [letter] = await crew.letters()
    assert (letter.reason.value, letter.source_id) == ("malformed", entry_id)
    assert await crew.events() == []


@pytest.mark.parametrize(
    "twice",
    [
        b'"players":["eve","fay"],',
        b'"match_id":"other",',
        b'"type":"tournament-finished","podium":["eve"],"tournament_id":"t",',
    ],
)
async def test_a_key_written_twice_counts_the_same_for_both_parsers(crew: Crew, twice: bytes) -> None:
    message = raw({"type": "match-finished", **match("m-1"), "finished_at": crew.now, "ladder": crew.ladder})
    await crew.send(b"{" + twice + message[1:])
    await finish(crew.engine("one"))
    assert [(event.match_id, event.players[0].player) for event in await crew.events()] == [("m-1", "ada")]
    assert await crew.finished()


# Failures


class Fragile(Backgammon):
    """Raises for a cube of 64."""

    def rate(self, first: State, second: State, game: Game) -> Outcome:
        if game.cube == 64:
            raise ZeroDivisionError("a bug in the system")
        return super().rate(first, second, game)


async def test_a_rating_that_keeps_failing_is_a_dead_letter_and_takes_nothing_with_it(
    client: Redis, ladder: str
) -> None:
    crew = Crew(client, ladder, Fragile())
    ids = await crew.send(
        match("m-0"), match("m-1", cube=64), match("m-2", ("ada", "cyd")), match("m-3", ("dan", "eve"))
    )
    engine = crew.engine("one", attempts=4)
    await engine.claim_new()
    # Given one round: what does not wait behind it is rated
    await work(engine)
    assert [event.match_id for event in await crew.events()] == ["m-0", "m-3"]
    # It is not tried again at once
    assert list(engine.waiting) == ids[1:3]
    assert engine.waiting[ids[1]].attempts == 2 and await work(engine) == 0
    # When its attempts are used up
    await finish(engine)
    # Then it is kept, with the error, and what waited behind it goes on
    [letter] = await crew.letters()
    assert (letter.reason.value, letter.source_id) == ("failed", ids[1])
    assert letter.attempts >= 4 and "ZeroDivisionError" in letter.detail
    assert [event.match_id for event in await crew.events()] == ["m-0", "m-3", "m-2"]
    assert await crew.finished()


async def test_a_message_that_kills_its_workers_is_a_dead_letter_in_the_end(crew: Crew) -> None:
    # Given a message that every worker dies of
    ids = await crew.send(match("m-1"), match("m-2"))
    for number in range(4):
        engine = crew.engine(f"victim-{number}", attempts=4, batch=1)
        await (engine.claim_stale() if number else engine.claim_new())
        assert list(engine.waiting) == ids[:1] and engine.waiting[ids[0]].problem is None
    # When the next one takes over
    last = crew.engine("last", attempts=4)
    await last.claim_stale()
    await work(last)
    # Then it is not tried a fifth time
    [letter] = await crew.letters()
    assert (letter.reason.value, letter.source_id, letter.attempts) == ("failed", ids[0], 5)
    assert letter.message and "4 times" in letter.detail
    await finish(last)
    assert [event.match_id for event in await crew.events()] == ["m-2"]
    assert await crew.finished()


async def test_after_a_dead_letter_the_match_may_be_sent_again(crew: Crew) -> None:
    await crew.send(match("m-1", cube=3), match("m-1", finished_at=crew.now + 3_600_000), match("m-1"))
    await finish(crew.engine("one"))
    assert [letter.reason.value for letter in await crew.letters()] == ["invalid", "clock-skew"]
    assert [event.match_id for event in await crew.events()] == ["m-1"]


@pytest.mark.parametrize("trouble", ["min-replicas-to-write", "maxmemory"])
async def test_a_server_that_refuses_to_write_for_a_while_costs_no_message_its_attempts(
    own_server: Server, trouble: str
) -> None:
    # Given messages in hand, some bad, when the server begins to refuse writing: no replica, no memory
    async with Redis.from_url(own_server.url) as redis:
        crew = Crew(redis, "backgammon")
        await crew.send(match("m-1"), match("m-2", cube=3), match("m-3"), match("m-4", mode="boosted"))
        engine = crew.engine("one", attempts=3)
        await engine.claim_new()
        usual = (await redis.config_get(trouble))[trouble]
        await redis.config_set(trouble, 1)
        # When it goes on for longer than there are attempts
        for _ in range(6):
            for entry in engine.waiting.values():
                entry.retry_at = 0
            try:
                await engine.claim_own()
                await work(engine)
            except ResponseError:
                engine.reset()
        await redis.config_set(trouble, usual)
        # Then all goes its way as soon as the server does
        await engine.claim_own()
        await finish(engine)
        assert [event.match_id for event in await crew.events()] == ["m-1", "m-3"]
        assert [letter.reason.value for letter in await crew.letters()] == ["invalid"]
        assert await crew.finished()


# Leave and heal


async def test_leaving_hands_everything_to_the_others_at_once(crew: Crew) -> None:
    # Given a worker that holds more than one step of the script
    ids = await crew.send(*[match(f"m-{n}", (f"a{n}", f"b{n}")) for n in range(250)])
    stopping = crew.engine("stopping", batch=250)
    while await stopping.claim_new():
        pass
    await crew.redis.xdel(crew.keys.inbox, ids[7])
    # When it leaves
    await stopping.shut_down()
    # Then it is no consumer any more, and the others need not wait for the idle limit
    names = {info["name"] for info in await crew.redis.xinfo_consumers(crew.keys.inbox, GROUP)}
    assert names == {HANDOVER_CONSUMER.encode()} and not stopping.waiting
    other = crew.engine("other", batch=300, idle=3_600_000)
    assert await other.claim_stale() == 249
    await finish(other)
    assert len(await crew.events()) == 249
    assert {info["name"] for info in await crew.redis.xinfo_consumers(crew.keys.inbox, GROUP)} == {b"other"}


async def test_leaving_with_nothing_in_hand(crew: Crew) -> None:
    await crew.send()
    engine = crew.engine("one")
    await engine.claim_new()
    await engine.shut_down()
    assert await crew.redis.xinfo_consumers(crew.keys.inbox, GROUP) == []


async def test_healing_frees_what_waits_for_a_message_deleted_by_hand(crew: Crew) -> None:
    # Given claimed messages on a line and with one id, the first of each deleted by hand
    ids = await crew.send(match("m-1"), match("m-2"), match("x", ("cyd", "dan")), match("x", ("eve", "fay")))
    engine = crew.engine("one")
    await engine.claim_new()
    await crew.redis.xdel(crew.keys.inbox, ids[0], ids[2])
    engine.reset()
    await engine.claim_own()
    assert await work(engine) == 0
    # When the engine heals
    await engine.unblock()
    # Then those behind go on
    await finish(engine)
    assert [event.match_id for event in await crew.events()] == ["m-2", "x"]
    assert not await crew.pending() and not await crew.redis.xlen(crew.keys.inbox)


async def test_healing_leaves_everything_else_alone(crew: Crew) -> None:
    # Given two workers with messages in hand that wait for each other, and some not claimed yet
    await crew.send(match("m-1"), match("m-2"), match("m-1", ("cyd", "dan")), match("m-4"))
    one, other = crew.engine("one", batch=1), crew.engine("other", batch=2)
    await one.claim_new()
    await other.claim_new()
    before, pending = await dump(crew), await crew.pending()
    # When both heal
    await one.unblock()
    await other.unblock()
    assert await dump(crew) == before and await crew.pending() == pending


async def test_healing_finds_an_owner_for_a_message_acknowledged_by_hand(crew: Crew) -> None:
    # Given a message that somebody has acknowledged without deleting it, and one behind it
    ids = await crew.send(match("m-1"), match("m-2"))
    await crew.store.claim("gone", "new", 1)
    await crew.redis.xack(crew.keys.inbox, GROUP, ids[0])
    engine = crew.engine("one", idle=3_600_000)
    await engine.claim_new()
    assert await work(engine) == 0
    # When the engine heals
    await engine.unblock()
    # Then the first is somebody's again, and is rated before the second
    await finish(engine)
    assert [event.match_id for event in await crew.events()] == ["m-1", "m-2"]


async def test_a_long_line_of_messages_that_are_gone_is_healed_soon(crew: Crew) -> None:
    # Given a line full of messages that are gone
    await crew.redis.rpush(crew.keys.line("ada"), *[f"{n}-0" for n in range(1, 60)])
    await crew.send(match("m-1"))
    # Then a new match of this player does not wait a second for each
    with running(StreamConsumer(crew.engine("one", idle=3_600_000))):
        await eventually(crew.finished)
    assert len(await crew.events()) == 1


# The loop


async def test_a_loop_that_is_stopped_leaves_in_good_order(crew: Crew) -> None:
    # Given a loop with messages in hand that wait for another worker
    await crew.send(match("m-1"))
    slow = crew.engine("slow", idle=3_600_000)
    await slow.claim_new()
    await crew.send(match("m-2"), match("m-3"))
    intake = StreamConsumer(crew.engine("one", idle=3_600_000))
    task = asyncio.create_task(intake.run())
    await eventually(lambda: _holds(crew, "one", 2))
    # When it is stopped
    intake.stop()
    await asyncio.wait_for(task, 8)
    # Then others have at once what it held
    other = crew.engine("other", idle=3_600_000)
    assert await other.claim_stale() == 2
    await work(slow)
    await finish(other)
    assert [event.match_id for event in await crew.events()] == ["m-1", "m-2", "m-3"]


async def _holds(crew: Crew, name: str, count: int) -> bool:
    return sum(owner == name for owner, _ in (await crew.pending()).values()) == count


async def test_the_loop_makes_a_new_group_when_somebody_destroyed_it(crew: Crew) -> None:
    # Given a loop at work
    with running(StreamConsumer(crew.engine("one"))):
        await crew.send(match("m-1"))
        await eventually(crew.finished)
        # When the group is destroyed by hand and messages come
        await crew.redis.xgroup_destroy(crew.keys.inbox, GROUP)
        message = raw({**match("m-2"), "finished_at": crew.now, "ladder": crew.ladder})
        await crew.redis.xadd(crew.keys.inbox, {FIELD: message})
        # Then they are rated
        await eventually(crew.finished)
    assert [event.match_id for event in await crew.events()] == ["m-1", "m-2"]


async def test_a_group_destroyed_under_a_backlog_rates_everything_once(crew: Crew) -> None:
    # Given two workers with messages of the same players in hand
    await crew.send(*[match(f"m-{n}", ("ada", "bob") if n % 2 else ("bob", "cyd")) for n in range(12)])
    one, other = crew.engine("one", batch=5), crew.engine("other", batch=5)
    await one.claim_new()
    await other.claim_new()
    # When the group is destroyed and made anew, so that everything is delivered again
    await crew.redis.xgroup_destroy(crew.keys.inbox, GROUP)
    with running(StreamConsumer(one)), running(StreamConsumer(other)):
        await eventually(lambda: _is_empty(crew))
    # Then each match is rated once, in order
    events = await crew.events()
    assert sorted(event.match_id or "" for event in events) == sorted(f"m-{n}" for n in range(12))
    sequences = [part.sequence for event in events for part in event.players if part.player == "bob"]
    assert sequences == list(range(1, 13))


async def _is_empty(crew: Crew) -> bool:
    return not await crew.redis.xlen(crew.keys.inbox)


async def test_messages_that_nobody_blocks_do_not_wait_for_those_that_somebody_does(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given many messages that wait for a worker that is gone, long before anybody takes over
    await crew.send(match("m-0", ("ada", "bob")))
    gone = crew.engine("gone", idle=3_600_000)
    await gone.claim_new()
    await crew.send(*[match(f"w-{n}", ("ada", f"p{n}")) for n in range(20)])
    engine = crew.engine("one", idle=3_600_000)
    await engine.claim_new()
    # And one that waits for a worker which is only slow
    await crew.send(match("x-1", ("eve", "fay")))
    slow = crew.engine("slow", idle=3_600_000)
    await slow.claim_new()
    await crew.send(match("x-2", ("eve", "fay")))
    await engine.claim_new()
    settled = rounds_of(engine, monkeypatch)
    with running(StreamConsumer(engine)):
        await eventually(lambda: len(settled) >= 3)
        # When the slow one is done
        assert await work(slow) == 1
        # Then the one behind it goes, though nothing else moves
        await eventually(lambda: _has_events(crew, 2))
    assert [event.match_id for event in await crew.events()] == ["x-1", "x-2"]


def rounds_of(engine: BatchProcessor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages the engine settles in each round from now on, as a list that grows."""
    settle, done = BatchProcessor.settle, list[int]()

    async def counted(one: BatchProcessor, **options: Any) -> int:
        count = await settle(one, **options)
        if one is engine:
            done.append(count)
        return count

    monkeypatch.setattr(BatchProcessor, "settle", counted)
    return done


async def _has_events(crew: Crew, count: int) -> bool:
    return bool(await crew.redis.xlen(crew.keys.outbox) == count)


async def test_suspects_are_not_worked_off_at_one_a_second(crew: Crew) -> None:
    # Given a full batch whose workers have died twice: a machine that goes down twice is enough
    await crew.send(*[match(f"m-{n}", (f"a{n}", f"b{n}")) for n in range(60)])
    await crew.engine("first").claim_new()
    await crew.engine("second").claim_stale()
    # When a healthy worker comes
    with running(StreamConsumer(crew.engine("third"))):
        await eventually(lambda: _has_events(crew, 60))


async def test_a_worker_that_is_alive_and_full_keeps_its_messages(crew: Crew) -> None:
    # Given a worker that has as much in hand as it may, all of it waiting for somebody else
    await crew.send(match("m-0", ("ada", "bob")))
    await crew.engine("slow").claim_new()
    await crew.send(*[match(f"m-{n}", ("ada", f"p{n}")) for n in range(1, 5)])
    full = crew.engine("full", waiting=4, idle=3_600_000)
    await full.claim_new()
    with running(StreamConsumer(full)):
        # When it has waited for longer than the limit after which a silent worker counts as gone
        limit = 1_500
        await eventually(lambda: _all_idle(crew, limit))
        other = crew.engine("other", idle=limit)
        await other.claim_stale()
    # Then only the one that is silent has lost its message
    assert {owner for owner, _ in (await crew.pending()).values()} == {"full", "other"}
    assert len(other.waiting) == 1


async def _all_idle(crew: Crew, ms: int) -> bool:
    """Whether every claim is as old as this."""
    claims = await crew.redis.xpending_range(crew.keys.inbox, GROUP, "-", "+", 1000)
    return all(claim["time_since_delivered"] >= ms for claim in claims)


async def test_claims_and_lines_survive_a_crash_of_the_server(own_server: Server) -> None:
    # Given a worker with messages in hand, and more in the inbox
    async with Redis.from_url(own_server.url) as redis:
        crew = Crew(redis, "backgammon")
        ids = await crew.send(*[match(f"m-{n}", ("ada", f"p{n}")) for n in range(6)])
        await crew.engine("one", batch=4).claim_new()
        before, pending = await dump(crew), await crew.pending()
    # When the server crashes and comes back
    await asyncio.to_thread(own_server.restart, kill=True)
    # Then the claims and lines are there, and the work goes on where it was
    async with Redis.from_url(own_server.url) as redis:
        crew = Crew(redis, "backgammon")
        assert await dump(crew) == before and await crew.pending() == pending
        engine = crew.engine("one")
        assert await engine.claim_own() == 4
        await finish(engine)
        assert [event.match_id for event in await crew.events()] == [f"m-{n}" for n in range(6)]
        assert len(ids) == 6 and await crew.finished()


def test_a_match_parses_as_the_crew_sends_it() -> None:
    # The helpers themselves: a message of `match` is one that the contract takes.
    MatchFinished.model_validate({**match(), "finished_at": 1_795_953_600_000})
