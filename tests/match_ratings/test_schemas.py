"""The exported JSON Schemas: current, well described, and of one mind with the models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

import schemas
from match_ratings import MatchFinished, TournamentFinished, dead_letters, inbox, outbox, publish
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.message_batch import Limits
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import SYSTEMS
from tests.support.clock import now_ms

Json = dict[str, Any]

NOW = 1_795_000_000_000
MATCH: Json = {
    "match_id": "m-1",
    "ladder": "backgammon",
    "players": ["ada", "bob"],
    "winner": "ada",
    "finished_at": NOW,
}
CUP: Json = {
    "type": "tournament-finished",
    "tournament_id": "cup-1",
    "ladder": "backgammon",
    "public": True,
    "podium": ["ada", "bob", "cem"],
    "finished_at": NOW,
}
VOIDED: Json = {
    "type": "match-voided",
    "match_id": "m-1",
    "ladder": "backgammon",
    "players": ["ada", "bob"],
    "why": "cheating",
    "finished_at": NOW,
}
GOOD = {"match-finished.json": MATCH, "tournament-finished.json": CUP, "match-voided.json": VOIDED}
ABSENT = object()


def by_schema(file: str, message: object) -> bool:
    validator = Draft202012Validator(json.loads((schemas.DIRECTORY / file).read_text(encoding="utf-8")))
    return bool(validator.is_valid(message))


def by_model(file: str, message: object) -> bool:
    try:
        schemas.MODELS[file][0].model_validate_json(json.dumps(message))
    except ValidationError:
        return False
    return True


def changed(file: str, change: Json) -> Json:
    return {name: value for name, value in {**GOOD[file], **change}.items() if value is not ABSENT}


# What a server may send.
RIGHT: list[tuple[str, Json]] = [
    ("match-finished.json", {}),
    ("match-finished.json", {"type": "match-finished", "version": 1}),
    ("match-finished.json", {"version": 2}),  # the worker sets it aside by itself
    ("match-finished.json", {"mode": "ranked"}),
    ("match-finished.json", {"mode": "boosted"}),
    ("match-finished.json", {"mode": "casual"}),
    ("match-finished.json", {"mode": "tournament"}),
    ("match-finished.json", {"players": ["ada", "A" * 128], "winner": None}),
    ("match-finished.json", {"players": ["李明", "Şahin B."], "winner": "李明"}),
    ("match-finished.json", {"cube": 64, "length": 7}),
    ("match-finished.json", {"length": None}),
    ("match-finished.json", {"win_type": "backgammon", "ending": "timed-out"}),
    ("match-finished.json", {"finished_at": "2026-11-29T12:00:00Z"}),
    ("match-finished.json", {"finished_at": "2026-11-29t12:00:00.123456+03:00"}),
    ("match-finished.json", {"country": "TR", "nested": {"anything": [1, 2]}}),
    ("tournament-finished.json", {}),
    ("tournament-finished.json", {"podium": ["ada"]}),
    ("tournament-finished.json", {"podium": list("abcd"), "prizes": [9, 0, -3, 1]}),
    ("tournament-finished.json", {"public": False}),
    ("match-voided.json", {}),
    ("match-voided.json", {"why": "x" * 500}),
]

# What it may not.
WRONG: list[tuple[str, Json]] = [
    *((file, {"ladder": ABSENT}) for file in GOOD),
    *((file, {"finished_at": ABSENT}) for file in GOOD),
    *((file, {"type": "match-started"}) for file in GOOD),
    *((file, {"version": value}) for file in GOOD for value in (0, "1", True, 1.5)),
    *((file, {"ladder": value}) for file in GOOD for value in ("", "Back gammon", "a--b", "a" * 65, 1)),
    *(
        (file, {"finished_at": value})
        for file in GOOD
        for value in (NOW // 1000, NOW * 1000, NOW + 0.5, -1, True, None, "now")
    ),
    *((file, {"finished_at": value}) for file in GOOD for value in ("2026-11-29T12:00:00", str(NOW))),
    *(("match-finished.json", {"match_id": value}) for value in (ABSENT, "", "a" * 129, "a\tb", 7, None)),
    *(
        ("match-finished.json", {"players": value})
        for value in (["ada"], ["ada", "ada"], ["ada", 1], "ada, bob")
    ),
    ("match-finished.json", {"players": ["ada", "bob", "cem"]}),
    ("match-finished.json", {"players": ["ada", ""]}),
    ("match-finished.json", {"winner": ABSENT}),
    *(("match-finished.json", {"winner": value}) for value in ("", 1, ["ada"])),
    *(("match-finished.json", {"mode": value}) for value in ("Ranked", "", None, 1)),
    *(("match-finished.json", {"cube": value}) for value in (0, 3, 128, "2", True, None)),
    *(("match-finished.json", {"length": value}) for value in (0, 1001, "7", True)),
    *(("match-finished.json", {"win_type": value}) for value in ("triple", None)),
    *(("match-finished.json", {"ending": value}) for value in ("timed_out", None)),
    *(("tournament-finished.json", {"public": value}) for value in (ABSENT, 1, "true", None)),
    *(("tournament-finished.json", {"podium": value}) for value in ([], ["ada", "ada"], [1], None)),
    ("tournament-finished.json", {"podium": [str(place) for place in range(17)], "prizes": [1] * 17}),
    ("tournament-finished.json", {"podium": list("abcd")}),  # there are three prizes by default
    *(
        ("tournament-finished.json", {"prizes": value})
        for value in ([], [1, 2, 1001], [1, 2, 0.5], [1, 2, True])
    ),
    *(("match-voided.json", {"why": value}) for value in (ABSENT, "", "x" * 501, None)),
    ("match-voided.json", {"players": ["ada", "ada"]}),
]

# What only the worker can tell.
BEYOND_A_SCHEMA: list[tuple[str, Json]] = [
    ("match-finished.json", {"winner": "cem"}),
    ("match-finished.json", {"cube": 2.0}),  # to JSON Schema this is an integer
    ("match-finished.json", {"finished_at": "2026-02-30T12:00:00Z"}),
    ("tournament-finished.json", {"prizes": [50, 25]}),
]


@pytest.mark.parametrize("file", schemas.MODELS)
def test_a_schema_is_current(file: str) -> None:
    stored = (schemas.DIRECTORY / file).read_text(encoding="utf-8")
    assert stored == schemas.text(file), "run scripts/schemas"


def test_there_is_a_schema_of_each_model_and_no_other_file() -> None:
    assert {path.name for path in schemas.DIRECTORY.iterdir()} == set(schemas.MODELS)


@pytest.mark.parametrize("file", schemas.MODELS)
def test_a_schema_is_well_formed_and_describes_each_field(file: str) -> None:
    schema = json.loads((schemas.DIRECTORY / file).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert list(schema)[:4] == ["$schema", "title", "description", "type"]
    assert "None" not in json.dumps(schema)
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["title"] and part["description"]
        for field in part.get("properties", {}).values():
            assert field["description"].endswith(".") and "title" not in field


@pytest.mark.parametrize(("file", "change"), RIGHT)
def test_what_a_server_may_send_is_valid_by_both(file: str, change: Json) -> None:
    message = changed(file, change)
    assert by_model(file, message)
    assert by_schema(file, message)


@pytest.mark.parametrize(("file", "change"), WRONG)
def test_what_it_may_not_send_is_invalid_by_both(file: str, change: Json) -> None:
    message = changed(file, change)
    assert not by_model(file, message)
    assert not by_schema(file, message)


@pytest.mark.parametrize(("file", "change"), BEYOND_A_SCHEMA)
def test_what_a_schema_cannot_say_is_told_by_the_model(file: str, change: Json) -> None:
    message = changed(file, change)
    assert not by_model(file, message)
    assert by_schema(file, message)


ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 130),
    st.integers(NOW - 1000, NOW + 1000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("ab -ş李\t", max_size=5),
    st.sampled_from(["casual", "left", "ada", "2026-11-29T12:00:00Z", "2026-11-29", "a-b"]),
    st.lists(st.one_of(st.text("ab", max_size=2), st.integers(-5, 5)), max_size=4),
)


@given(file=st.sampled_from(sorted(GOOD)), data=st.data())
def test_a_schema_refuses_nothing_that_the_model_takes(file: str, data: st.DataObject) -> None:
    fields = sorted(schemas.MODELS[file][0].model_fields)
    change = data.draw(st.dictionaries(st.sampled_from(fields), ANY_VALUE, max_size=3))
    message = changed(file, change)
    if by_model(file, message):
        assert by_schema(file, message)


async def test_what_the_worker_writes_is_valid(fake: FakeAsyncRedis, ladder: str) -> None:
    # Given matches and a tournament in each system, and a message that is wrong
    now = now_ms()
    for name, system in SYSTEMS.items():
        own = f"{ladder}-{name}"
        store = LadderStore(fake, own, system(), horizon=Limits().horizon)
        engine = BatchProcessor(store, own, store.system, "w")
        await store.join_group()
        match = {**MATCH, "ladder": own, "finished_at": now, "length": 3}
        await publish(fake, MatchFinished(**match))
        await publish(fake, MatchFinished(**{**match, "match_id": "m-2", "winner": "bob", "cube": 4}))
        await publish(fake, TournamentFinished(**{**CUP, "ladder": own, "finished_at": now}))
        await fake.xadd(inbox(own), {"message": "{"})
        # When a worker has settled them
        await engine.claim_new()
        while engine.waiting:
            await engine.settle()
        # Then the schemas fit what it wrote
        events = [json.loads(fields[b"message"]) for _, fields in await fake.xrange(outbox(own))]
        assert {event["cause"] for event in events} >= {"match", "prize"}
        for event in events:
            assert by_schema("rating-updated.json", event), event
        ((_, letter),) = await fake.xrange(dead_letters(own))
        numbers = ("attempts", "first_seen", "dead_at")
        texts = {key.decode(): value.decode() for key, value in letter.items()}
        read = {key: int(value) if key in numbers else value for key, value in texts.items()}
        assert by_schema("dead-letter.json", read), read
