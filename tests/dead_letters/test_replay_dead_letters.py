"""A replay and its outcomes, each of them on a fake server and on a real one."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from match_ratings_worker.dead_letters import DeadLetterFilter, ReplayOutcome, ReplayResult
from tests.support.clock import DAY
from tests.support.office import HORIZON, Office, outcomes, tally


async def test_what_failed_for_a_while_is_rated(office: Office) -> None:
    # Given a match that is a dead letter though nothing is wrong with it
    [letter] = await office.bury(office.match("m-1"))
    # When it is replayed
    results = await office.replay(letter)
    # Then it is rated, once, and nothing of it is left
    assert results == [ReplayResult(letter, ReplayOutcome.RATED)]
    [event] = await office.events()
    assert event.match_id == "m-1" and not event.late
    assert await office.dead_letters() == [] and await office.redis.xlen(office.keys.inbox) == 0


async def test_each_outcome_has_its_name(office: Office) -> None:
    # Given two matches that were rated, and dead letters of every kind
    await office.send(office.match("m-1"), office.match("m-2"))
    await office.work()
    skew = office.match("m-6", finished_at=office.now + 3_600_000)
    tournament = {
        "type": "tournament-finished",
        "tournament_id": "t-1",
        "ladder": office.ladder,
        "public": True,
        "podium": ["ada", "bob"],
        "finished_at": office.now,
    }
    void = {
        "type": "match-voided",
        "match_id": "m-2",
        "ladder": office.ladder,
        "players": ["ada", "bob"],
        "why": "a bot",
        "finished_at": office.now,
    }
    letters: dict[str, tuple[dict[str, Any] | bytes, ReplayOutcome, ReplayOutcome]] = {
        "rated": (office.match("m-3"), ReplayOutcome.RATED, ReplayOutcome.RATED),
        "duplicate": (office.match("m-1"), ReplayOutcome.DUPLICATE, ReplayOutcome.DUPLICATE),
        "conflict": (office.match("m-1", cube=2), ReplayOutcome.CONFLICT, ReplayOutcome.CONFLICT),
        "boosted": (office.match("m-4", mode="boosted"), ReplayOutcome.NOT_RATED, ReplayOutcome.NOT_RATED),
        "draw": (office.match("m-5", winner=None), ReplayOutcome.STILL_WRONG, ReplayOutcome.STILL_WRONG),
        "bad": (office.match("m-5", cube=3), ReplayOutcome.STILL_WRONG, ReplayOutcome.STILL_WRONG),
        "no json": (b"{", ReplayOutcome.STILL_WRONG, ReplayOutcome.STILL_WRONG),
        "newer": (office.match("m-5", version=2), ReplayOutcome.PARKED, ReplayOutcome.STILL_WRONG),
        "ahead": (skew, ReplayOutcome.PARKED, ReplayOutcome.STILL_WRONG),
        "late": (
            office.match("m-7", finished_at=office.now - HORIZON - DAY),
            ReplayOutcome.PARKED,
            ReplayOutcome.STILL_WRONG,
        ),
        "prize": (tournament, ReplayOutcome.PRIZE, ReplayOutcome.PRIZE),
        "void": (void, ReplayOutcome.VOID, ReplayOutcome.VOID),
        "again": (office.match("m-3"), ReplayOutcome.DUPLICATE, ReplayOutcome.DUPLICATE),
    }
    ids = await office.bury(*[message for message, _, _ in letters.values()])
    before = await office.dump()
    expected = {letter: outcome for letter, (_, outcome, _) in zip(ids, letters.values(), strict=True)}
    # When it is tried dry, then the forecast is right and nothing is changed
    dry = await office.results(*ids, dry=True)
    assert {result.letter: result.outcome for result in dry} == expected
    assert await office.dump() == before
    # When they are replayed, what was said happens
    results = await office.replay(*ids)
    assert {result.letter: result.outcome for result in results} == expected
    for result in results:
        same = next(item for item in dry if item.letter == result.letter)
        if result.outcome in (ReplayOutcome.STILL_WRONG, ReplayOutcome.PARKED, ReplayOutcome.CONFLICT):
            assert result.reason == same.reason and result.detail
    # And what is still wrong is a dead letter with one attempt more, as old as before
    dead = {letter.id: letter for letter in await office.dead_letters()}
    for result in results:
        if result.outcome in (ReplayOutcome.STILL_WRONG, ReplayOutcome.CONFLICT):
            letter = dead.pop(result.new_id)
            assert (letter.attempts, letter.reason, letter.detail) == (4, result.reason, result.detail)
            assert letter.first_seen < letter.dead_at - 50_000
    # And what was parked is where it was
    assert set(dead) == {result.letter for result in results if result.outcome is ReplayOutcome.PARKED}
    # And parked ones go too when somebody insists
    results = await office.replay(*dead, include_parked=True)
    assert tally(results) == {ReplayOutcome.STILL_WRONG: 3}


async def test_a_replay_never_takes_up_what_died_after_it_began(office: Office) -> None:
    # Given dead letters that will die again
    await office.bury(*[office.match(f"m-{n}", cube=3) for n in range(100)])
    # When all are replayed, in many steps
    results = await office.replay(inbox_limit=7)
    # Then each was replayed once
    assert tally(results) == {ReplayOutcome.STILL_WRONG: 100}
    assert [letter.attempts for letter in await office.dead_letters()] == [4] * 100


async def test_the_order_is_that_of_the_first_sending_for_each_player(office: Office) -> None:
    # Given dead letters whose order among the dead is not that in which they were sent
    sent = [office.match(f"m-{n}", ("ada", f"p{n}")) for n in range(150)]
    ids = [f"{office.now - 1000 + n // 3}-{n % 3}" for n in range(150)]
    for number in sorted(range(150), key=lambda n: (n * 37) % 150):
        await office.bury(sent[number], source_id=ids[number], first_seen=int(ids[number].partition("-")[0]))
    # When all are replayed, then they are rated in the order in which they were sent
    await office.replay(inbox_limit=20)
    assert [event.match_id for event in await office.events()] == [f"m-{n}" for n in range(150)]


async def test_what_died_twice_keeps_its_place(office: Office) -> None:
    # Given a match that died, was replayed and died again, and a later one that died once
    first, second = office.match("m-1", ("ada", "bob"), cube=3), office.match("m-2", ("ada", "cyd"))
    await office.send(first)
    await office.work()
    await office.redis.xadd(office.keys.inbox, {"message": "x"})
    await office.work()
    await office.bury(second, source_id=f"{office.now + 10**6}-0", first_seen=office.now + 10**6)
    [result, *_] = await office.replay(where=DeadLetterFilter(match_id="m-1"))
    # When its cube is put right and both are replayed
    [letter] = await office.letters.get([result.new_id])
    assert letter is not None and letter.attempts == 2
    await office.letters.replace(
        letter, json.dumps(office.match("m-1")).encode(), reason="invalid", detail="", history=""
    )
    await office.replay(where=DeadLetterFilter(player="ada"))
    # Then it goes before the other
    assert [event.match_id for event in await office.events()] == ["m-1", "m-2"]


async def test_filters(office: Office) -> None:
    ids = [
        *await office.bury(office.match("m-1"), reason="failed", dead_at=office.now - DAY),
        *await office.bury(office.match("m-2", ("cyd", "dan")), reason="invalid", dead_at=office.now),
        *await office.bury(b'{"players": ["ada", ', reason="malformed", dead_at=office.now - 2 * DAY),
    ]

    async def found(**where: Any) -> list[int]:
        letters = office.letters.find(DeadLetterFilter(**where))
        return [ids.index(letter.id) async for letter in letters]

    assert await found() == [2, 1, 0]
    assert await found(reasons=frozenset({"failed", "invalid"})) == [1, 0]
    assert await found(before=office.now) == [2, 0]
    assert await found(since=office.now - DAY) == [1, 0]
    assert await found(player="ada") == [2, 0]
    assert await found(player="dan") == [1]
    assert await found(match_id="m-2") == [1]
    assert await found(ids=(ids[0], "x", "1-1", ids[2]), player="ada") == [0, 2]
    assert await office.letters.count_by_reason(DeadLetterFilter()) == {
        "failed": 1,
        "invalid": 1,
        "malformed": 1,
    }


async def test_ids_that_are_not_there_are_said(office: Office) -> None:
    [letter] = await office.bury(office.match("m-1"))
    results = await office.replay("1-1", letter, "x", "0-0")
    assert [(result.letter, result.outcome) for result in results] == [
        ("1-1", ReplayOutcome.GONE),
        ("x", ReplayOutcome.GONE),
        ("0-0", ReplayOutcome.GONE),
        (letter, ReplayOutcome.RATED),
    ]


async def test_without_a_worker_nothing_is_moved_and_it_does_not_hang(office: Office) -> None:
    ids = await office.bury(*[office.match(f"m-{n}") for n in range(3)])
    before = await office.dead_letters()
    assert outcomes(await office.results()) == ["left"] * 3
    assert await office.dead_letters() == before
    assert [letter.id for letter in before] == ids


async def test_it_ends_when_the_workers_end_or_nothing_moves(office: Office) -> None:
    # Given a worker that was there a moment ago
    await office.bury(*[office.match(f"m-{n}") for n in range(20)])
    engine = office.engine("silent")
    await engine.store.join_group()
    await engine.claim_new()
    # When it does nothing, then the replay gives up after its patience; nothing is lost
    results = await office.results(inbox_limit=8, timeout=0.2)
    assert tally(results) == {ReplayOutcome.WAITING: 8, ReplayOutcome.LEFT: 12}
    assert await office.redis.xlen(office.keys.inbox) == 8
    assert len(await office.dead_letters()) == 12
    # And when a worker comes, the others are rated too
    await office.work()
    assert tally(await office.replay()) == {ReplayOutcome.RATED: 12}
    assert len(await office.events()) == 20


async def test_a_run_that_was_cut_off_is_taken_up_under_its_name(office: Office) -> None:
    # Given a replay that ended in the middle, and letters that died since
    await office.bury(*[office.match(f"m-{n}", cube=n % 2 + 1) for n in range(20)])
    engine = office.engine("silent")
    await engine.store.join_group()
    await engine.claim_new()
    await office.results(name="run1", inbox_limit=8, timeout=0.1)
    await office.bury(office.match("later"))
    # When it is taken up again
    results = await office.replay(name="run1")
    # Then its results are those of all of its letters, and of no others
    assert tally(results) == {ReplayOutcome.RATED: 20}
    assert [json.loads(letter.message)["match_id"] for letter in await office.dead_letters()] == ["later"]
    # And once more it only tells what became of them
    assert tally(await office.results(name="run1")) == {ReplayOutcome.RATED: 20}


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a-b", "é"])
async def test_a_run_has_a_plain_name(office: Office, name: str) -> None:
    with pytest.raises(ValueError, match="replay's name"):
        await office.results(name=name)


async def test_a_pace_is_kept(office: Office) -> None:
    await office.bury(*[office.match(f"m-{n}") for n in range(30)])
    begun = time.monotonic()
    assert tally(await office.replay(rate=100.0)) == {ReplayOutcome.RATED: 30}
    assert time.monotonic() - begun > 0.15


async def test_two_replays_at_once_share_the_letters(office: Office) -> None:
    await office.bury(*[office.match(f"m-{n}", (f"p{n}", f"q{n}")) for n in range(200)])
    async with office.worker():
        one, other = await asyncio.gather(office.results(inbox_limit=50), office.results(inbox_limit=50))
    both = tally([*one, *other])
    assert both[ReplayOutcome.RATED] == 200 and both[ReplayOutcome.GONE] == 200
    assert len(await office.events()) == 200
