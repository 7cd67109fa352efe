"""Guarantee 5: an event carries all that made the change, and the ledger is the whole truth of a ladder."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings import Cause, RatingUpdated, outbox, rating_updates
from match_ratings.stream_names import FIELD
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import SYSTEMS, Backgammon, RatingSystem
from tests.support.clock import DAY, now_ms
from tests.support.model import HORIZON, Model, match, raw, stored, tournament

PLAYERS = [f"player-{n}" for n in range(12)]
NOW = now_ms()

#: Backgammon under all of its rules: they came into force while these matches were played.
DATED = Backgammon(rules={"1.0.5": NOW - 10 * DAY, "1.2.0": NOW - 6 * DAY, "1.3.1": NOW - 3 * DAY})


def played(system: RatingSystem, count: int = 400) -> list[dict[str, Any]]:
    """Many matches of few players over 13 days, a fifth of them late; prizes, and what is not rated."""
    draw = random.Random(17)
    messages = []
    for number in range(count):
        progress = 13 * DAY - number * 13 * DAY // count
        age = progress if draw.random() < 0.8 else draw.randrange(13 * DAY)
        # One player is in every second match, to pass 50 games in 7 days.
        first, second = draw.sample(PLAYERS[1:], 2) if number % 2 else (PLAYERS[0], draw.choice(PLAYERS[1:]))
        winner = draw.choice([first, second, None] if system.draws else [first, second])
        fields: dict[str, Any] = {
            "cube": draw.choice([1, 1, 2, 4, 8, 16, 32, 64]),
            "length": draw.choice([1, 5, 9]),
        }
        if number % 23 == 0:
            fields["mode"] = "boosted"
        messages.append(match(f"m-{number}", (first, second), winner=winner, finished_at=NOW - age, **fields))
        if number % 50 == 25:
            podium = tuple(draw.sample(PLAYERS, 3))
            messages.append(tournament(f"t-{number}", podium, finished_at=NOW - age))
        if number % 40 == 7:
            messages.append(dict(messages[-3]))
    return messages


async def rate(
    redis: Redis, ladder: str, system: RatingSystem, messages: list[dict[str, Any]]
) -> list[tuple[str, bytes]]:
    """Rates the messages with two workers in turn; returns them with their ids."""
    stores = [LadderStore(redis, ladder, system, horizon=HORIZON) for _ in range(2)]
    engines = [
        BatchProcessor(store, ladder, system, f"w-{n}", Limits(batch=50, chunk=16))
        for n, store in enumerate(stores)
    ]
    await stores[0].join_group()
    await stores[0].ensure_adopted()
    sent = []
    for message in messages:
        text = raw({**message, "ladder": ladder})
        sent.append(((await redis.xadd(stores[0].keys.inbox, {FIELD: text})).decode(), text))
    while await redis.xlen(stores[0].keys.inbox):
        for engine in engines:
            await engine.claim_new()
            await engine.settle()
            await engine.drain()
    return sent


async def ledger(redis: Redis, ladder: str) -> list[RatingUpdated]:
    """All events, each parsed from what the stream holds."""
    entries = await redis.xrange(outbox(ladder))
    return [
        RatingUpdated.model_validate_json(fields[b"message"]).model_copy(update={"id": entry_id.decode()})
        for entry_id, fields in entries
    ]


SYSTEMS_TO_TEST = {"dated backgammon": DATED} | {name: system() for name, system in SYSTEMS.items()}


@pytest.fixture(params=SYSTEMS_TO_TEST, scope="module")
def system(request: pytest.FixtureRequest) -> RatingSystem:
    return SYSTEMS_TO_TEST[request.param]


@pytest.fixture
async def events(redis: Redis, ladder: str, system: RatingSystem) -> list[RatingUpdated]:
    """The ledger after all matches have been rated."""
    await rate(redis, ladder, system, played(system))
    found = await ledger(redis, ladder)
    assert sum(event.cause is Cause.MATCH for event in found) > 350
    assert {event.cause for event in found} >= {Cause.MATCH, Cause.PRIZE}
    return found


async def test_every_event_recomputed_from_itself_gives_the_same(
    events: list[RatingUpdated], system: RatingSystem
) -> None:
    for event in events:
        for part in event.players:
            assert part.after == pytest.approx(part.before + part.change)
        if event.cause is Cause.MATCH:
            outcome = system.recompute(event)
            assert (outcome.rules, outcome.coefficient) == (event.rules, event.coefficient)
            for side, part in zip(outcome.sides, event.players, strict=True):
                assert (side.change, side.rating) == (part.change, part.after)
                assert (side.expected, side.k) == (part.expected, part.k)
                assert {name: part.figures[name] for name in side.figures} == side.figures
        elif event.cause is Cause.PERIOD:
            [part] = event.players
            side = system.recompute_close(part)
            assert (side.change, side.rating) == (part.change, part.after)


async def test_a_figure_that_is_changed_changes_the_recomputed_event(
    events: list[RatingUpdated], system: RatingSystem
) -> None:
    # Given events whose ratings before are others by a hundred points: the check above must notice
    different = 0
    for event in events:
        if event.cause is Cause.MATCH:
            first, second = event.players
            forged = first.model_copy(update={"before": first.before + 100})
            outcome = system.recompute(event.model_copy(update={"players": (forged, second)}))
            different += outcome.sides[0].rating != first.after
    assert different > 300


async def test_the_ledger_replayed_from_the_start_gives_the_stored_ratings(
    events: list[RatingUpdated], redis: Redis, ladder: str, system: RatingSystem
) -> None:
    # Given nothing but the ledger
    ratings: dict[str, float] = {}
    sequences: dict[str, int] = {}
    for event in events:
        for part in event.players:
            # Then each change begins where that player's last one ended, and is the next of that player
            assert part.before == ratings.get(part.player, system.initial().rating)
            assert part.sequence == sequences.get(part.player, 0) + 1
            ratings[part.player], sequences[part.player] = part.after, part.sequence
    # And the last ones are what is stored
    keys = LadderStore(redis, ladder, system, horizon=HORIZON).keys
    for player in PLAYERS:
        state = await redis.hgetall(keys.player(player))  # type: ignore[misc]
        assert system.parse_rating(state[b"rating"]) == ratings[player]
        assert int(state[b"sequence"]) == sequences[player]
    found = {
        name.decode(): score for name, score in await redis.zrange(keys.leaderboard, 0, -1, withscores=True)
    }
    assert {player: ratings[player] for player in found} == found
    if system.integer_ratings:
        assert len(found) == len(PLAYERS)


async def test_windows_and_late_marks_follow_from_the_ledger_alone(events: list[RatingUpdated]) -> None:
    rated: dict[str, list[int]] = {}
    late = 0
    for event in events:
        if event.cause is not Cause.MATCH:
            continue
        at = event.finished_at
        names = [part.player for part in event.players]
        assert event.late == any(time > at for name in names for time in rated.get(name, []))
        late += event.late
        for part in event.players:
            own = rated.setdefault(part.player, [])
            assert part.recent_games == sum(at - 7 * DAY <= time < at for time in own)
            own.append(at)
    assert late > 20
    assert max(len(times) for times in rated.values()) > 150


async def test_ids_are_the_places_in_the_ledger_and_the_receipts_name_them(
    events: list[RatingUpdated], redis: Redis, ladder: str, system: RatingSystem
) -> None:
    places = [tuple(map(int, (event.id or "").split("-"))) for event in events]
    assert places == sorted(set(places))
    keys = LadderStore(redis, ladder, system, horizon=HORIZON).keys
    for event in events:
        if event.match_id is not None:
            receipt = await redis.get(keys.receipt(event.match_id))
            assert receipt.split()[0].decode() == event.id
    # And a consumer reads the very same
    read = []
    async with asyncio.timeout(20):
        async for event in rating_updates(redis, ladder, start="0"):
            read.append(event)
            if len(read) == len(events):
                break
    assert read == events


async def test_k_is_halved_for_the_busy_and_rules_follow_their_dates(redis: Redis, ladder: str) -> None:
    await rate(redis, ladder, DATED, played(DATED))
    events = [event for event in await ledger(redis, ladder) if event.cause is Cause.MATCH]
    assert {event.rules for event in events} == {"1.0", "1.0.5", "1.2.0", "1.3.1"}
    for event in events:
        for part in event.players:
            halved = event.rules == "1.3.1" and (part.recent_games or 0) >= 50
            assert part.k == (16 if halved else 32)
    assert any(part.k == 16 for event in events for part in event.players)
    assert all(event.coefficient == event.cube for event in events if event.rules == "1.0")


async def test_the_ledger_is_the_models(redis: Redis, server: Endpoint, ladder: str) -> None:
    sent = await rate(redis, ladder, DATED, played(DATED))
    with server.client() as client:
        assert stored(client, ladder) == Model(ladder, now=NOW, system=DATED).feed_all(sent)
