"""What other programs use: the messages' exact validation, publish, enqueue, and the event iterator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from redis.asyncio import Connection, ConnectionPool, Redis
from redis.exceptions import AuthenticationError, RedisError

import match_ratings
from embedded import Endpoint, Server
from match_ratings import (
    JOB,
    QUEUE,
    MatchFinished,
    Mode,
    PlayerUpdate,
    RatingUpdated,
    TournamentFinished,
    enqueue,
    publish,
    rating_updates,
)
from match_ratings.stream_names import FIELD
from tests.support.model import match, tournament
from tests.support.waiting import eventually

#: 2026-11-29T12:00:00Z.
NOON = 1_795_953_600_000


def read(message: dict[str, Any]) -> MatchFinished:
    """The match as the worker reads it, from JSON; building it in Python must come to the same."""
    try:
        built: MatchFinished | None = MatchFinished.model_validate(message)
    except ValidationError:
        built = None
    try:
        parsed = MatchFinished.model_validate_json(json.dumps(message))
    except ValidationError:
        assert built is None, "from JSON it is refused, from Python it is not"
        raise
    assert parsed == built
    return parsed


def refused(message: dict[str, Any], field: str) -> None:
    """Fails unless the match is refused, and for this field."""
    with pytest.raises(ValidationError) as caught:
        read(message)
    assert field in {str(item["loc"][0]) if item["loc"] else "" for item in caught.value.errors()}


# Matches


def test_a_match_of_the_required_fields_has_the_defaults() -> None:
    found = read(match(finished_at=NOON))
    assert (found.type, found.version, found.mode, found.cube) == ("match-finished", 1, Mode.RANKED, 1)
    assert (found.length, found.win_type, found.ending) == (None, "single", "played")
    assert found.players == ("ada", "bob") and found.winner == "ada" and found.finished_at == NOON


@pytest.mark.parametrize("field", ["match_id", "ladder", "players", "winner", "finished_at"])
def test_a_required_field_that_is_missing_is_refused(field: str) -> None:
    message = match(finished_at=NOON)
    del message[field]
    refused(message, field)


def test_unknown_fields_are_ignored_and_a_message_cannot_be_changed() -> None:
    found = read(match(finished_at=NOON, country="tr", winnner="bob", extra={"a": [1]}))
    assert found == read(match(finished_at=NOON))
    with pytest.raises(ValidationError):
        found.cube = 64


GOOD_IDS = [
    "a",
    "x" * 128,
    "\U0001f3b2" * 128,
    " ",
    "a b",
    '"',
    "\\",
    "{x}",
    "? 1-0",
    "*",
    "\u202eevil",
    "é",
    "0",
]
BAD_IDS: list[Any] = [
    "",
    "x" * 129,
    "a\n",
    "\na",
    "a\x00b",
    "a\x1f",
    "a\x7f",
    "a\x80",
    "a\x9f",
    7,
    None,
    1.5,
    True,
    ["a"],
    {"a": 1},
]


@pytest.mark.parametrize("value", GOOD_IDS)
def test_good_ids(value: str) -> None:
    assert read(match(value, finished_at=NOON)).match_id == value
    assert read(match("m", (value, "somebody"), finished_at=NOON)).players[0] == value
    prizes = TournamentFinished.model_validate(tournament(value, (value,), finished_at=NOON))
    assert (prizes.tournament_id, prizes.podium) == (value, (value,))


@pytest.mark.parametrize("value", BAD_IDS)
def test_bad_ids(value: Any) -> None:
    refused(match(finished_at=NOON) | {"match_id": value}, "match_id")
    refused(match(finished_at=NOON) | {"players": [value, "bob"], "winner": "bob"}, "players")
    with pytest.raises(ValidationError):
        TournamentFinished.model_validate(tournament(finished_at=NOON) | {"podium": ["ada", value]})


def test_half_a_character_is_no_id() -> None:
    with pytest.raises(ValidationError):
        read(match("\ud800", finished_at=NOON))


@given(st.text(max_size=140))
def test_an_id_is_1_to_128_characters_without_control_characters(value: str) -> None:
    allowed = 1 <= len(value) <= 128 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value)
    try:
        read(match(value, finished_at=NOON))
    except ValidationError:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize("cube", [1, 2, 4, 8, 16, 32, 64])
def test_good_cubes(cube: int) -> None:
    assert read(match(finished_at=NOON, cube=cube)).cube == cube


@pytest.mark.parametrize(
    "cube", [0, -1, 3, 6, 63, 65, 128, 2**40, 1.0, 2.0, 2.5, True, "2", "3", "0", "", None, [2]]
)
def test_bad_cubes(cube: Any) -> None:
    refused(match(finished_at=NOON, cube=cube), "cube")


@pytest.mark.parametrize("length", [None, 1, 7, 1000])
def test_good_lengths(length: int | None) -> None:
    assert read(match(finished_at=NOON, length=length)).length == length


@pytest.mark.parametrize("length", [0, -1, 1001, 5.0, 5.5, True, "5", [5]])
def test_bad_lengths(length: Any) -> None:
    refused(match(finished_at=NOON, length=length), "length")


@pytest.mark.parametrize("version", [0, -1, 1.0, 1.5, True, "1", None])
def test_bad_versions(version: Any) -> None:
    refused(match(finished_at=NOON, version=version), "version")


@pytest.mark.parametrize(
    "players", [[], ["ada"], ["ada", "bob", "cyd"], "ab", None, {"0": "ada", "1": "bob"}]
)
def test_a_match_has_two_players(players: Any) -> None:
    refused(match(finished_at=NOON) | {"players": players}, "players")


def test_the_players_are_different_and_the_winner_is_one_of_them() -> None:
    refused(match("m", ("ada", "ada"), finished_at=NOON), "")
    refused(match(finished_at=NOON, winner="cyd"), "")
    refused(match(finished_at=NOON, winner="Ada"), "")  # ids are compared exactly
    assert read(match("m", ("e\u0301", "\u00e9"), finished_at=NOON)).winner == "e\u0301"
    assert read(match(finished_at=NOON, winner=None)).winner is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("ranked", "ranked"), ("boosted", "boosted"), ("casual", "boosted"), ("tournament", "tournament")],
)
def test_modes_and_the_old_name_casual(old: str, new: str) -> None:
    assert read(match(finished_at=NOON, mode=old)).mode.value == new


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "Ranked"),
        ("mode", None),
        ("mode", ["ranked"]),
        ("win_type", "triple"),
        ("ending", "timed_out"),
        ("type", "tournament-finished"),
        ("type", None),
        ("ladder", "Backgammon"),
        ("ladder", ""),
        ("ladder", "x" * 65),
        ("ladder", "a--b"),
        ("ladder", "a}b"),
        ("ladder", "back\u0261ammon"),
    ],
)
def test_other_wrong_values(field: str, value: Any) -> None:
    refused(match(finished_at=NOON) | {field: value}, field)


@given(st.text(alphabet="ab-_ A1é\n{}", max_size=6) | st.text(alphabet="a1-", min_size=60, max_size=66))
def test_messages_and_keys_agree_on_what_a_ladder_is(name: str) -> None:
    try:
        match_ratings.inbox(name)
    except ValueError:
        refused(match(finished_at=NOON) | {"ladder": name}, "ladder")
    else:
        assert read(match(finished_at=NOON) | {"ladder": name}).ladder == name


# Times


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-29T12:00:00Z", NOON),
        ("2026-11-29t12:00:00z", NOON),
        ("2026-11-29 12:00:00Z", NOON),
        ("2026-11-29T12:00:00+00:00", NOON),
        ("2026-11-29T12:00:00-00:00", NOON),
        ("2026-11-29T15:30:00+03:30", NOON),
        ("2026-11-30T11:59:00+23:59", NOON),
        ("2026-11-28T12:01:00-23:59", NOON),
        ("2026-11-29T12:00:00.1Z", NOON + 100),
        ("2026-11-29T12:00:00.001Z", NOON + 1),
        ("2026-11-29T12:00:00.0019Z", NOON + 1),
        ("2026-11-29T12:00:00.999999999999Z", NOON + 999),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("1973-03-03T09:46:40Z", 100_000_000_000),
        ("5138-11-16T09:46:39.999Z", 99_999_999_999_999),
    ],
)
def test_rfc_3339_times(text: str, ms: int) -> None:
    assert read(match(finished_at=text)).finished_at == ms


@pytest.mark.parametrize("ms", [100_000_000_000, NOON, 99_999_999_999_999])
def test_integer_milliseconds(ms: int) -> None:
    assert read(match(finished_at=ms)).finished_at == ms


@pytest.mark.parametrize(
    "value",
    [
        NOON // 1000,  # seconds
        NOON * 1000,  # microseconds
        float(NOON),
        NOON + 0.5,
        -NOON,
        0,
        True,
        None,
        str(NOON),
        99_999_999_999,
        100_000_000_000_000,
        "",
        "2026-11-29",
        "2026-11-29T12:00:00",  # naive
        "2026-11-29T12:00Z",  # without seconds
        "2026-11-29T12:00:00.Z",
        "2026-11-29T12:00:00,5Z",
        "2026-11-29T12:00:00+0300",
        "2026-11-29T12:00:00+03",
        "2026-11-29T12:00:00+24:00",
        "2026-11-29T12:00:00+03:60",
        "2026-11-29T12:00:00 +03:00",
        "2026-11-29T24:00:00Z",
        "2026-11-29T12:60:00Z",
        "2026-11-29T12:00:61Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "0000-01-01T12:00:00Z",
        "20261129T120000Z",
        " 2026-11-29T12:00:00Z",
        "2026-11-29T12:00:00Z\n",
        "２０２６-11-29T12:00:00Z",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        ["2026-11-29T12:00:00Z"],
    ],
)
def test_times_that_are_never_guessed_at(value: Any) -> None:
    refused(match(finished_at=value), "finished_at")


@given(
    st.datetimes(datetime(1974, 1, 1), datetime(5000, 1, 1)),
    st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_any_aware_time_is_cut_to_its_millisecond(naive: datetime, zone: timezone) -> None:
    time = naive.replace(tzinfo=zone)
    exact = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert MatchFinished.model_validate(match(finished_at=time)).finished_at == exact
    assert read(match(finished_at=time.isoformat())).finished_at == exact
    with pytest.raises(ValidationError):
        MatchFinished.model_validate(match(finished_at=naive))
    with pytest.raises(ValidationError):
        read(match(finished_at=naive.isoformat()))


# Tournaments and events


@pytest.mark.parametrize(("places", "prizes"), [(1, (50,)), (2, (50, 25)), (3, (50, 25, 15))])
def test_the_usual_prizes_fit_the_podium(places: int, prizes: tuple[int, ...]) -> None:
    podium = ("ada", "bob", "cyd")[:places]
    assert TournamentFinished.model_validate(tournament("t", podium, finished_at=NOON)).prizes == prizes


@pytest.mark.parametrize(
    "wrong",
    [
        {"podium": []},
        {"podium": ["ada", "ada"]},
        {"podium": [f"p{n}" for n in range(17)], "prizes": [1] * 17},
        {"podium": ["ada", "bob", "cyd", "dan"]},  # the usual prizes are three
        {"podium": None},
        {"prizes": [50]},
        {"prizes": [50, 25, 15]},
        {"prizes": [50, 2.5]},
        {"prizes": [50, "25"]},
        {"prizes": [50, True]},
        {"prizes": [50, 1001]},
        {"prizes": None},
        {"public": "true"},
        {"public": 1},
        {"public": None},
        {"finished_at": NOON // 1000},
        {"tournament_id": ""},
    ],
)
def test_wrong_tournaments(wrong: dict[str, Any]) -> None:
    message = tournament(finished_at=NOON) | wrong
    with pytest.raises(ValidationError):
        TournamentFinished.model_validate(message)
    with pytest.raises(ValidationError):
        TournamentFinished.model_validate_json(json.dumps(message))


def event(number: int, ladder: str, before: float = 1500) -> RatingUpdated:
    part = PlayerUpdate(player="ada", before=before, change=16, after=before + 16, sequence=number)
    return RatingUpdated(
        cause=match_ratings.Cause.PRIZE,
        tournament_id=f"t-{number}",
        ladder=ladder,
        system="backgammon",
        rules="1.3.1",
        finished_at=NOON,
        rated_at=NOON,
        players=(part,),
    )


def test_an_event_keeps_whole_numbers_whole_and_its_id_out_of_the_json() -> None:
    sent = event(1, "backgammon").model_copy(update={"id": "1-0"})
    assert "id" not in json.loads(sent.model_dump_json())
    found = RatingUpdated.model_validate_json(sent.model_dump_json())
    assert type(found.players[0].before) is int
    found = RatingUpdated.model_validate_json(event(1, "backgammon", 1500.5).model_dump_json())
    assert found.players[0].after == 1516.5


def test_an_event_of_a_newer_worker_can_be_read() -> None:
    data = json.loads(event(1, "backgammon").model_dump_json())
    data |= {"version": 2, "season": "winter"}
    data["players"][0] |= {"mood": "good"}
    assert RatingUpdated.model_validate_json(json.dumps(data)).players == event(1, "backgammon").players


# Publish and enqueue


async def test_publish_writes_one_entry_that_reads_as_it_was_sent(redis: Redis, ladder: str) -> None:
    # Given two messages with every field set
    sent = MatchFinished.model_validate(
        match(finished_at=NOON, cube=8, length=7, winner=None) | {"ladder": ladder}
    )
    prizes = TournamentFinished.model_validate(
        tournament("é\U0001f3b2", finished_at=NOON) | {"ladder": ladder}
    )
    # When they are published
    ids = [await publish(redis, sent), await publish(redis, prizes)]
    # Then each is an entry with the one field, in the ladder's own stream
    entries = await redis.xrange(match_ratings.inbox(ladder))
    assert [entry_id.decode() for entry_id, _ in entries] == ids
    assert [list(fields) for _, fields in entries] == [[FIELD.encode()]] * 2
    raws = [fields[FIELD.encode()] for _, fields in entries]
    assert MatchFinished.model_validate_json(raws[0]) == sent
    assert TournamentFinished.model_validate_json(raws[1]) == prizes


async def test_publish_raises_when_redis_did_not_confirm(own_server: Server) -> None:
    async with Redis.from_url(own_server.url) as client:
        own_server.kill()
        with pytest.raises(RedisError):
            await publish(client, MatchFinished.model_validate(match(finished_at=NOON)))


class Pool:
    """Takes the place of arq's pool and serialises at once, as that does."""

    def __init__(self) -> None:
        self.job_serializer: Any = None
        self.jobs: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.written: list[bytes] = []

    async def enqueue_job(self, function: str, *args: Any, **options: Any) -> None:
        self.jobs.append((function, args, options))
        self.written.append(self.job_serializer({"f": function, "a": args}))


async def test_enqueue_asks_for_the_job_with_queue_expiry_and_no_id() -> None:
    # Given a pool; when a match is enqueued twice
    pool = Pool()
    sent = MatchFinished.model_validate(match(finished_at=NOON))
    await enqueue(pool, sent)
    await enqueue(pool, sent)
    # Then both are asked for in the same way: arq would swallow a second job with the same id
    assert pool.jobs[0] == pool.jobs[1]
    function, args, options = pool.jobs[0]
    assert (function, options["_queue_name"]) == (JOB, QUEUE)
    assert "_job_id" not in options and options["_expires"] >= timedelta(days=14)
    assert len(args) == 1 and MatchFinished.model_validate_json(json.dumps(args[0])) == sent
    assert json.loads(pool.written[0])["f"] == JOB


# The event iterator


async def put(client: Redis, ladder: str, *numbers: int) -> list[str]:
    """Adds events to the ladder's ledger and returns their ids."""
    ids = []
    for number in numbers:
        written = await client.xadd(
            match_ratings.outbox(ladder), {FIELD: event(number, ladder).model_dump_json()}
        )
        ids.append(written.decode() if isinstance(written, bytes) else written)
    return ids


async def take(events: AsyncIterator[RatingUpdated], count: int) -> list[tuple[str | None, int]]:
    """The next `count` events as (id, sequence)."""
    found: list[tuple[str | None, int]] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            update = await anext(events)
            found.append((update.id, update.players[0].sequence))
    return found


@pytest.mark.parametrize(
    "options", [{}, {"decode_responses": True}, {"protocol": 3}, {"protocol": 3, "decode_responses": True}]
)
async def test_all_events_from_the_oldest_on(server: Endpoint, ladder: str, options: dict[str, Any]) -> None:
    async with Redis.from_url(server.url, **options) as client:
        ids = await put(client, ladder, *range(1, 1201))
        found = await take(rating_updates(client, ladder, start="0"), 1200)
        assert found == list(zip(ids, range(1, 1201), strict=True))


async def test_events_after_an_id_without_that_one(redis: Redis, ladder: str) -> None:
    ids = await put(redis, ladder, 1, 2, 3)
    assert await take(rating_updates(redis, ladder, start=ids[0]), 2) == [(ids[1], 2), (ids[2], 3)]
    # An id that is no event's, and one without its second half, do as well.
    await redis.xdel(match_ratings.outbox(ladder), ids[1])
    assert await take(rating_updates(redis, ladder, start=ids[1]), 1) == [(ids[2], 3)]
    assert (await take(rating_updates(redis, ladder, start="1"), 1)) == [(ids[0], 1)]


@pytest.mark.parametrize("earlier", [0, 2])
async def test_only_what_comes_from_now_on(server: Endpoint, redis: Redis, ladder: str, earlier: int) -> None:
    # Given some events that are there before; when somebody starts to listen
    await put(redis, ladder, *range(earlier))
    async with Redis.from_url(server.url, client_name=ladder) as listener:
        events = rating_updates(listener, ladder)
        first = asyncio.ensure_future(take(events, 1))
        await until_waiting(redis, ladder)
        # Then that one gets all the later ones, also those between two reads, and none of the earlier
        ids = await put(redis, ladder, 7)
        assert await first == [(ids[0], 7)]
        ids = await put(redis, ladder, 8, 9)
        assert await take(events, 2) == [(ids[0], 8), (ids[1], 9)]


async def until_waiting(client: Redis, name: str) -> None:
    """Returns once the client of this name blocks, waiting for events."""
    await eventually(partial(_waits, client, name))


async def _waits(client: Redis, name: str) -> bool:
    return any(other["name"] == name and "b" in other["flags"] for other in await client.client_list())


@pytest.mark.parametrize("start", ["", "x", "1-2-3", "-1", "1700000000000-x", "$$", ">", "+", "-", "1 2"])
async def test_a_bad_id_is_a_value_error_that_names_it(redis: Redis, ladder: str, start: str) -> None:
    await put(redis, ladder, 1)
    with pytest.raises(ValueError, match="start: ") as caught:
        await take(rating_updates(redis, ladder, start=start), 1)
    assert repr(start) in str(caught.value)


async def test_a_bad_ladder_is_a_value_error(redis: Redis) -> None:
    with pytest.raises(ValueError, match="ladder: "):
        await take(rating_updates(redis, "Chess"), 1)


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("start", ["0", "$"])
async def test_a_restart_of_redis_misses_and_repeats_nothing(
    own_server: Server, kill: bool, start: str
) -> None:
    # Given a listener that has had some events
    listener = Redis.from_url(own_server.url, client_name="listener")
    async with Redis.from_url(own_server.url) as client:
        events = rating_updates(listener, "backgammon", start=start)
        listening = asyncio.ensure_future(take(events, 20))
        await until_waiting(client, "listener")
        ids = await put(client, "backgammon", *range(1, 11))
        await until_waiting(client, "listener")
        # When Redis goes away while it waits and comes back
        await asyncio.to_thread(own_server.restart, kill=kill, down=0.3)
    async with Redis.from_url(own_server.url) as client:
        ids += await put(client, "backgammon", *range(11, 21))
        # Then it has every event once, in order
        assert await listening == list(zip(ids, range(1, 21), strict=True))
        await events.aclose()  # type: ignore[attr-defined]
    await listener.aclose()


async def test_listening_can_begin_before_redis_does(own_server: Server) -> None:
    async with Redis.from_url(own_server.url) as client:
        ids = await put(client, "backgammon", 1)
    own_server.stop()
    attempts = 0

    class Counting(Connection):
        async def connect(self) -> None:
            nonlocal attempts
            attempts += 1
            await super().connect()  # type: ignore[no-untyped-call]

    pool = ConnectionPool(connection_class=Counting, port=own_server.port)
    async with Redis(connection_pool=pool) as client:
        listening = asyncio.ensure_future(take(rating_updates(client, "backgammon", start="0"), 1))
        await eventually(lambda: attempts >= 2)
        await asyncio.to_thread(own_server.start)
        assert await listening == [(ids[0], 1)]
    await pool.disconnect()


async def test_a_wrong_password_is_not_waited_out(own_server: Server) -> None:
    with own_server.client() as client:
        client.config_set("requirepass", "secret")
    async with Redis.from_url(own_server.url) as client:
        with pytest.raises(AuthenticationError):
            await take(rating_updates(client, "backgammon", start="0"), 1)
