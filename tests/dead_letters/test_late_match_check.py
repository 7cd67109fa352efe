"""Late matches: rated by the day on which they were played; past the horizon only with a proof."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from match_ratings import RatingUpdated
from match_ratings.messages import Cause
from match_ratings_worker.dead_letters import DeadLetterFilter, DeadLetterStore, ReplayOutcome
from match_ratings_worker.ledger import Archive
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.rating import Backgammon
from tests.support.clock import DAY
from tests.support.office import HORIZON, Office, outcomes, tally

STATEMENT = "the server was down that week"


async def rated(office: Office) -> RatingUpdated:
    """The last event of the ledger."""
    [(_, fields)] = await office.redis.xrevrange(office.keys.outbox, count=1)
    return RatingUpdated.model_validate_json(fields[b"message"])


async def test_a_late_match_is_rated_by_its_own_day(client: Redis, ladder: str) -> None:
    # Given new rules since a week ago, and two players with games on both sides of that day
    now = Office(client, ladder).now
    office = Office(client, ladder, Backgammon(rules={"1.2.0": 0 + 10**11, "1.3.1": now - 7 * DAY}))
    for number, days in enumerate((15, 12, 11, 9, 3, 1)):
        await office.bury(
            office.match(f"old-{number}", finished_at=now - days * DAY + 1), reason="failed", dead_at=now
        )
    await office.replay(force_late=True, where=DeadLetterFilter(match_id="old-0"))
    for number in range(1, 6):
        await office.replay(where=DeadLetterFilter(match_id=f"old-{number}"))
    before = await office.events()
    state = before[-1].players[0]
    # When a match of ten days ago is replayed
    await office.bury(office.match("late", ("ada", "bob"), cube=2, finished_at=now - 10 * DAY))
    assert outcomes(await office.replay(where=DeadLetterFilter(match_id="late"))) == ["rated"]
    # Then it has the rules and the window of that day, and today's ratings
    event = await rated(office)
    assert event.late and event.rules == "1.2.0" and event.finished_at == now - 10 * DAY
    assert [part.recent_games for part in event.players] == [3, 3]
    assert event.players[0].before == state.after and event.players[0].sequence == state.sequence + 1
    # And games that were rated already stay as they are
    assert (await office.events())[:-1] == before


async def test_past_the_horizon_it_is_left_where_it_is(office: Office) -> None:
    [letter] = await office.bury(office.match("m", finished_at=office.now - HORIZON - DAY))
    [result] = await office.replay(letter)
    assert result.outcome is ReplayOutcome.PARKED and result.reason == "too-late"
    assert "15.0 days ago" in result.detail and "only a forced replay" in result.detail
    assert [letter.id for letter in await office.dead_letters()] == [letter]


async def test_forced_it_is_rated_when_the_whole_ledger_does_not_show_it(office: Office) -> None:
    # Given a ladder whose ledger is whole, and a match older than the horizon
    await office.send(office.match("other"))
    await office.work()
    [letter] = await office.bury(office.match("m", finished_at=office.now - HORIZON - DAY))
    # When it is forced, then the dry run and the replay say so
    assert outcomes(await office.results(letter, dry=True, force_late=True)) == ["rated"]
    assert outcomes(await office.replay(letter, force_late=True, by="mia")) == ["rated"]
    assert (await rated(office)).late
    # And who forced it, and by what proof, is kept though the letter is gone
    [(_, kept)] = await office.redis.xrange(office.keys.corrections)
    [item] = json.loads(kept[b"history"])
    assert (item["who"], item["force_late"]) == ("mia", "ledger") and kept[b"letter"] == letter.encode()
    # And rated again it is not: the receipt of a forced match is kept for the horizon
    await office.bury(office.match("m", finished_at=office.now - HORIZON - DAY))
    [result] = await office.replay(force_late=True)
    assert result.outcome is ReplayOutcome.PARKED and "the ledger shows its effect" in result.detail


async def test_forced_twice_in_one_replay_it_is_rated_once(office: Office) -> None:
    late = office.match("m", finished_at=office.now - HORIZON - DAY)
    await office.bury(late, late, {**late, "cube": 2})
    assert outcomes(await office.results(force_late=True, dry=True)) == ["rated", "duplicate", "conflict"]
    assert tally(await office.replay(force_late=True)) == {
        ReplayOutcome.RATED: 1,
        ReplayOutcome.DUPLICATE: 1,
        ReplayOutcome.CONFLICT: 1,
    }
    assert len(await office.events()) == 1


@pytest.mark.parametrize("statement", ["", STATEMENT])
async def test_what_the_ledger_shows_is_refused_whatever_anybody_says(office: Office, statement: str) -> None:
    # Given a match, a prize and a void that were done long ago: only the ledger knows
    old: dict[str, Any] = {"finished_at": office.now - HORIZON - DAY, "ladder": office.ladder}
    messages: list[dict[str, Any]] = [
        office.match("m", **old),
        {"type": "tournament-finished", "tournament_id": "t", "public": True, "podium": ["ada"], **old},
        {"type": "match-voided", "match_id": "m", "players": ["ada", "bob"], "why": "x", **old},
    ]
    for cause, name in ((Cause.MATCH, "match_id"), (Cause.PRIZE, "tournament_id"), (Cause.VOID, "match_id")):
        event: dict[str, Any] = {
            "cause": cause.value,
            name: "t" if cause is Cause.PRIZE else "m",
            "players": [],
        }
        await office.redis.xadd(office.keys.outbox, {"message": json.dumps(event)})
    await office.bury(*messages)
    # When they are forced, with somebody's word or without
    results = await office.replay(force_late=True, never_rated=statement)
    # Then they stay
    assert outcomes(results) == ["parked"] * 3
    assert all("the ledger shows its effect" in result.detail for result in results)


async def test_where_the_ledger_was_trimmed_somebody_has_to_say_it(office: Office) -> None:
    # Given a ledger that has lost its beginning
    await office.send(*[office.match(f"m-{n}") for n in range(3)])
    await office.work()
    await office.redis.xtrim(office.keys.outbox, maxlen=1, approximate=False)
    old = office.match("old", finished_at=office.now - HORIZON - DAY)
    [letter] = await office.bury(old)
    # When nobody says that it was not rated, then it is refused
    [result] = await office.replay(letter, force_late=True)
    assert result.outcome is ReplayOutcome.PARKED and "does not go back" in result.detail
    # And when somebody does, it is rated, and the word is kept
    await office.replay(letter, force_late=True, never_rated=STATEMENT, by="mia")
    assert (await rated(office)).match_id == "old"
    [(_, kept)] = await office.redis.xrange(office.keys.corrections)
    [item] = json.loads(kept[b"history"])
    assert (item["who"], item["why"], item["force_late"]) == ("mia", STATEMENT, "statement")


async def test_the_archive_goes_further_back_than_redis(real: Office, tmp_path: Path) -> None:
    # Given a ledger in Redis without its beginning, which is in the archive
    await real.send(*[real.match(f"m-{n}") for n in range(3)])
    await real.work()
    old = real.now - HORIZON - DAY
    event = {"cause": "match", "match_id": "known", "players": []}
    path = tmp_path / "events.sqlite"
    kept = await real.redis.xrange(real.keys.outbox)
    with Archive(path, writable=True) as archive:
        first = {"cause": "match", "match_id": "first", "players": []}
        archive.append(
            real.ladder,
            [
                (f"{old - 10 * DAY}-0", json.dumps(first).encode()),
                (f"{old + 1}-0", json.dumps(event).encode()),
                *((entry_id.decode(), fields[b"message"]) for entry_id, fields in kept),
            ],
        )
    await real.redis.xtrim(real.keys.outbox, maxlen=1, approximate=False)
    real.handle = replace(real.handle, archive=path)
    await real.bury(real.match("known", finished_at=old), real.match("new", finished_at=old))
    # When two old matches are forced, then the archive tells which was rated
    results = await real.replay(force_late=True)
    assert sorted(outcomes(results)) == ["parked", "rated"]
    assert (await rated(real)).match_id == "new"
    # And without the archive neither could be told
    await real.bury(real.match("newer", finished_at=old))
    real.handle = replace(real.handle, archive=tmp_path / "none")
    assert set(outcomes(await real.replay(force_late=True))) == {"parked"}


async def test_a_rating_taken_over_since_may_include_the_match(office: Office) -> None:
    [letter] = await office.bury(office.match("m", finished_at=office.now - HORIZON - DAY))
    event = {"cause": "import", "players": [{"player": "bob"}]}
    await office.redis.xadd(office.keys.outbox, {"message": json.dumps(event)})
    [result] = await office.replay(letter, force_late=True)
    assert (
        result.outcome is ReplayOutcome.PARKED and '"bob" was taken over from another rater' in result.detail
    )
    assert outcomes(await office.replay(letter, force_late=True, never_rated=STATEMENT)) == ["rated"]


async def test_a_forced_match_sees_the_games_that_had_left_the_window(office: Office) -> None:
    # Given games of 30 days ago, of which only the ledger knows, one of them taken back
    old = office.now - 30 * DAY
    for number in range(55):
        event = {
            "cause": "match",
            "match_id": f"g-{number}",
            "finished_at": old + number,
            "players": [{"player": "ada"}, {"player": f"p{number}"}],
        }
        await office.redis.xadd(office.keys.outbox, {"message": json.dumps(event)})
    event = {"cause": "void", "match_id": "g-3", "finished_at": old, "players": [{"player": "ada"}]}
    await office.redis.xadd(office.keys.outbox, {"message": json.dumps(event)})
    # When a match of that week is forced
    [letter] = await office.bury(office.match("m", finished_at=old + DAY))
    await office.replay(letter, force_late=True)
    # Then its window is that of its day
    first, second = (await rated(office)).players
    assert (first.recent_games, first.k) == (54, 16) and (second.recent_games, second.k) == (0, 32)
    # And another one, in another batch, sees them too, and the one before
    [letter] = await office.bury(office.match("n", finished_at=old + DAY + 1))
    await office.replay(letter, force_late=True)
    first, second = (await rated(office)).players
    assert (first.recent_games, second.recent_games) == (55, 1)
    # And they are kept no longer than a player's games are
    assert await office.redis.pttl(office.keys.games("ada")) > 0
    assert await office.redis.pttl(office.keys.games("bob")) > 0


async def test_late_matches_in_one_replay_count_each_other(office: Office) -> None:
    old = office.now - 40 * DAY
    await office.bury(*[office.match(f"m-{n}", ("ada", f"p{n}"), finished_at=old + n) for n in range(70)])
    async with office.worker() as intake:
        intake.engine.limits = Limits(batch=5)
        await office.results(force_late=True)
    assert [event.players[0].recent_games for event in await office.events()] == list(range(70))


async def test_forcing_changes_nothing_for_those_that_are_not_late(office: Office) -> None:
    await office.bury(office.match("m"), office.match("bad", cube=3))
    results = await office.replay(force_late=True, never_rated=STATEMENT)
    assert tally(results) == {ReplayOutcome.RATED: 1, ReplayOutcome.STILL_WRONG: 1}
    assert await office.redis.exists(office.keys.corrections) == 0


async def test_the_shadow_of_a_ladder_has_letters_of_its_own(office: Office) -> None:
    await office.bury(office.match("m"))
    shadow = DeadLetterStore(replace(office.handle, shadow=True))
    assert await shadow.count() == 0 and await office.letters.count() == 1
