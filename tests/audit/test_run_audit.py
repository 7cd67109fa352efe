"""The audit: clean after honest work, and every kind of tampering found, and repaired where it can be."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker.audit import DifferenceKind as Kind
from match_ratings_worker.audit import audit_ladder
from match_ratings_worker.ladder_settings.adopt_settings import adopt, settings_digest
from match_ratings_worker.ledger import Archive, Ledger
from match_ratings_worker.migration.import_players import Importer
from match_ratings_worker.migration.player_records import PlayerReader
from match_ratings_worker.pipeline.close_due_periods import PeriodCloser
from match_ratings_worker.rating import SYSTEMS, Backgammon, Fibs, Fide, GlickoPeriods, RatingSystem
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from tests.support.bench import HORIZON, Bench
from tests.support.clock import DAY
from tests.support.model import match, tournament
from tests.support.servers import RUN

pytestmark = pytest.mark.usefixtures("quiet")

Tamper = Callable[[Bench], Awaitable[Any]]

VARIANTS: dict[str, RatingSystem] = {
    **{name: SYSTEMS[name]() for name in SYSTEMS},
    "backgammon with dates": Backgammon.model_validate(
        {"rules": {"1.2.0": "2026-01-01T00:00:00Z", "1.3.1": "2026-10-01T00:00:00Z"}}
    ),
    "fide by game": Fide(period="game", expectation="curve"),
    "fide from unrated": Fide(start=0),
    "fibs before": Fibs(experience="before"),
    "glicko-periods of a day": GlickoPeriods(period_days=1),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
async def test_after_honest_work_nothing_differs(server: Endpoint, variant: str, seed: int) -> None:
    async with Redis.from_url(server.url) as redis:
        bench = Bench(redis, f"t-{RUN}-{uuid.uuid4().hex[:8]}", VARIANTS[variant])
        messages = bench.traffic(random.Random(seed), 150)
        await bench.rate(*messages[:100], workers=2, batch=32)
        if bench.system.period_grace is not None:  # periods end by themselves, too
            async for _ in PeriodCloser(bench.engine().store, early=True).run():
                pass
        await bench.rate(*messages[100:], workers=2, batch=32)
        report = await bench.audit()
        assert not report.total, report.first
        assert (report.complete, report.events) == (True, await redis.xlen(bench.keys.outbox))
        # And rebuilding what is right changes nothing
        before = await bench.picture()
        assert not (await bench.audit(repair=True)).repaired_players
        assert await bench.picture() == before


async def test_an_empty_ladder_is_clean(bench: Bench) -> None:
    report = await bench.audit()
    assert (report.events, report.players, report.total, report.since) == (0, 0, 0, None)


async def played(bench: Bench) -> Bench:
    """A ladder with some history: matches, a prize, and a match that was taken back."""
    await bench.rate(
        *(match(f"m-{n}", finished_at=bench.now - 20 * DAY + n) for n in range(3)),
        *(match(f"m-{n}", ("bob", "ada"), finished_at=bench.now - 10_000 + n) for n in range(3, 6)),
        tournament("t-1", ("cyd", "ada")),
        match("m-6", ("ada", "cyd"), cube=8),
        bench.void("m-4"),
        match("m-7", ("bob", "dan")),
    )
    report = await bench.audit()
    assert not report.total, report.first
    return bench


def hset(name: str, field: str, value: str) -> Tamper:
    return lambda bench: bench.redis.hset(bench.keys.player(name), field, value)


#: What is done to a ladder, the differences that are then found, and whether all of them can be repaired.
STORED: dict[str, tuple[Tamper, dict[Kind, int], bool]] = {
    "rating": (hset("ada", "rating", "2400"), {Kind.RATING: 1}, False),
    "rating that is no number": (hset("ada", "rating", "high"), {Kind.RATING: 1}, False),
    "sequence": (hset("bob", "sequence", "3"), {Kind.SEQUENCE: 1}, False),
    "games": (hset("bob", "games", "9"), {Kind.GAMES: 1}, False),
    "last game": (hset("bob", "last_game", "0"), {Kind.GAMES: 1}, False),
    "a player who is gone": (
        lambda bench: bench.redis.delete(bench.keys.player("dan")), {Kind.PLAYER: 1}, False,
    ),
    "a player out of nothing": (hset("eve", "rating", "1999"), {Kind.PLAYER: 1}, False),
    "a player of another kind": (
        lambda bench: bench.redis.pipeline().delete(bench.keys.player("dan"))
        .set(bench.keys.player("dan"), "x").execute(), {Kind.PLAYER: 1}, False,
    ),
    "leaderboard": (
        lambda bench: bench.redis.zadd(bench.keys.leaderboard, {"ada": 9}), {Kind.LEADERBOARD: 1}, True,
    ),
    "leaderboard gone": (
        lambda bench: bench.redis.delete(bench.keys.leaderboard), {Kind.LEADERBOARD: 4}, True,
    ),
    "leaderboard with a ghost": (
        lambda bench: bench.redis.zadd(bench.keys.leaderboard, {"eve": 9}), {Kind.LEADERBOARD: 1}, True,
    ),
    "open periods": (
        lambda bench: bench.redis.zadd(bench.keys.open_periods, {"ada": 9}), {Kind.PERIOD: 1}, True,
    ),
    "a game missing": (
        lambda bench: bench.redis.zrem(bench.keys.games("ada"), "m-3"), {Kind.WINDOW: 1}, True,
    ),
    "a game too many": (
        lambda bench: bench.redis.zadd(bench.keys.games("ada"), {"m-99": bench.now}), {Kind.WINDOW: 1}, True,
    ),
    "a game put back that was taken back": (
        lambda bench: bench.redis.zadd(bench.keys.games("bob"), {"m-4": bench.now}), {Kind.WINDOW: 1}, True,
    ),
    "a game at another time": (
        lambda bench: bench.redis.zincrby(bench.keys.games("ada"), 1, "m-3"), {Kind.WINDOW: 1}, True,
    ),
    "a window gone": (
        lambda bench: bench.redis.delete(bench.keys.games("ada"), bench.keys.games("dan")),
        {Kind.WINDOW: 2}, True,
    ),
    "a receipt gone": (
        lambda bench: bench.redis.delete(bench.keys.receipt("m-5")), {Kind.RECEIPT: 1}, False,
    ),
    "a receipt of another": (
        lambda bench: bench.redis.set(bench.keys.void_receipt_ + "m-4", "1-1 x"), {Kind.RECEIPT: 1}, False,
    ),
    "a prize's receipt": (
        lambda bench: bench.redis.delete(bench.keys.prize_receipt_ + "t-1"), {Kind.RECEIPT: 1}, False,
    ),
    "counts": (lambda bench: bench.redis.hincrby(bench.keys.counts, "rated", 1), {Kind.COUNT: 1}, False),
}  # fmt: skip


@pytest.mark.parametrize("what", STORED)
async def test_what_is_stored_otherwise_is_found(bench: Bench, what: str) -> None:
    tamper, expected, repairable = STORED[what]
    await played(bench)
    right = await bench.picture()
    await tamper(bench)
    # Then it is told, and nothing else is
    report = await bench.audit()
    assert dict(report.counts) == expected, report.first
    assert report.remaining == report.total == len(report.first)
    # And what follows from the ledger is repaired, ratings never
    wrong = await bench.picture()
    report = await bench.audit(repair=True)
    assert (report.remaining == 0) is repairable
    assert await bench.picture() == (right if repairable else wrong)
    assert dict((await bench.audit()).counts) == ({} if repairable else expected)


def part(ledger: list[tuple[str, dict[str, Any]]], event: int, player: int) -> dict[str, Any]:
    found: dict[str, Any] = ledger[event][1]["players"][player]
    return found


def more(ledger: list[tuple[str, dict[str, Any]]], event: int) -> None:
    for one in ledger[event][1]["players"]:
        one["change"] += 1
        one["after"] += 1


#: What is done to the ledger, and which kinds of differences are found at least. Its events are
#: m-0 ... m-5 (0-5), t-1 (6), m-6 (7), the void of m-4 (8), m-7 (9).
LEDGER: dict[str, tuple[Callable[[list[tuple[str, dict[str, Any]]]], Any], set[Kind]]] = {
    "a change": (lambda ledger: more(ledger, 1), {Kind.FIGURES, Kind.CHAIN}),
    "a prize": (lambda ledger: part(ledger, 6, 0).update(after=1600), {Kind.FIGURES, Kind.CHAIN}),
    "a void": (lambda ledger: more(ledger, 8), {Kind.FIGURES, Kind.CHAIN, Kind.RATING}),
    "a void of another match": (lambda ledger: ledger[8][1].update(match_id="m-3"), {Kind.FIGURES}),
    "a void of nothing": (lambda ledger: ledger[8][1].update(match_id="m-99"), {Kind.FIGURES}),
    "a cube": (lambda ledger: ledger[7][1].update(cube=64), {Kind.FIGURES}),
    "a coefficient": (lambda ledger: ledger[7][1].update(coefficient=2.0), {Kind.FIGURES}),
    "the rules": (lambda ledger: ledger[2][1].update(rules="1.2.0"), {Kind.FIGURES}),
    "a winner": (
        lambda ledger: [one.update(score=1 - one["score"]) for one in ledger[2][1]["players"]],
        {Kind.FIGURES},
    ),
    "an expectation": (lambda ledger: part(ledger, 2, 0).update(expected=0.5), {Kind.FIGURES}),
    "a K": (lambda ledger: part(ledger, 2, 0).update(k=16), {Kind.FIGURES}),
    "recent games": (lambda ledger: part(ledger, 5, 0).update(recent_games=49), {Kind.FIGURES}),
    "late": (lambda ledger: ledger[5][1].update(late=True), {Kind.FIGURES}),
    "a time": (lambda ledger: ledger[5][1].update(finished_at=ledger[4][1]["finished_at"]), {Kind.WINDOW}),
    "what was before": (lambda ledger: part(ledger, 0, 0).update(before=1501), {Kind.FIGURES, Kind.CHAIN}),
    "a sequence": (lambda ledger: part(ledger, 2, 0).update(sequence=9), {Kind.MISSING}),
    "another ladder": (lambda ledger: ledger[9][1].update(ladder="chess"), {Kind.EVENT, Kind.SEQUENCE}),
    "another system": (lambda ledger: ledger[9][1].update(system="go"), {Kind.EVENT, Kind.RATING}),
    "no event": (lambda ledger: ledger[9][1].pop("players"), {Kind.EVENT, Kind.PLAYER}),
    "a figure missing": (lambda ledger: part(ledger, 2, 0).pop("expected"), {Kind.FIGURES}),
    "the first event gone": (lambda ledger: ledger.pop(0), {Kind.MISSING, Kind.COUNT}),
    "an event gone": (lambda ledger: ledger.pop(3), {Kind.MISSING, Kind.COUNT}),
    "the last event gone": (
        lambda ledger: ledger.pop(9), {Kind.RATING, Kind.SEQUENCE, Kind.GAMES, Kind.PLAYER, Kind.COUNT},
    ),
    "the void gone": (lambda ledger: ledger.pop(8), {Kind.MISSING, Kind.COUNT}),
    "an event twice": (
        lambda ledger: ledger.append(("9999999999999-0", ledger[5][1])), {Kind.MISSING, Kind.COUNT},
    ),
    "two events exchanged": (
        lambda ledger: ledger.__setitem__(
            slice(2, 4), [(ledger[2][0], ledger[3][1]), (ledger[3][0], ledger[2][1])]
        ),
        {Kind.MISSING},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEDGER)
async def test_a_ledger_that_was_tampered_with_is_found(bench: Bench, what: str) -> None:
    tamper, expected = LEDGER[what]
    await played(bench)
    ledger = await bench.ledger()
    tamper(ledger)
    await bench.rewrite(ledger)
    report = await bench.audit()
    assert expected <= report.counts.keys(), report.first
    # One mistake is not told a hundred times over
    assert report.total <= 12, report.first


async def test_an_event_deleted_by_hand_is_found_wherever_it_was(bench: Bench) -> None:
    await played(bench)
    for event in (await bench.events())[:3]:
        await bench.redis.xdel(bench.keys.outbox, event.id)
    report = await bench.audit()
    assert Kind.MISSING in report.counts
    assert "deleted from the ledger by hand" in report.first[0].text


async def test_a_match_that_was_rated_twice_is_named(bench: Bench) -> None:
    await bench.rate(match("m-1"))
    await bench.redis.delete(bench.keys.receipt("m-1"))
    await bench.rate(match("m-1"), match("m-2"))
    report = await bench.audit()
    assert {kind: report.counts[kind] for kind in (Kind.MISSING, Kind.WINDOW)} == {
        Kind.MISSING: 2,
        Kind.WINDOW: 0,
    }
    assert any(found.text == "ada: the match m-1 was rated twice" for found in report.first)


@pytest.mark.parametrize("name", ["glicko2", "fide", "fibs", "glicko-periods"])
async def test_the_fields_of_the_systems_are_compared(redis: Redis, ladder: str, name: str) -> None:
    bench = Bench(redis, ladder, SYSTEMS[name]())
    await bench.rate(*(match(f"m-{n}", length=3) for n in range(3)), bench.void("m-1"))
    field = bench.system.state_fields[-1]
    await redis.hset(bench.keys.player("ada"), field, "7")  # type: ignore[misc]  # wrong in redis-py
    assert dict((await bench.audit()).counts) == {Kind.STATE: 1}
    # And so is what the events say of them
    await redis.hset(bench.keys.player("ada"), field, (await bench.player("bob"))[field])  # type: ignore[misc]
    ledger = await bench.ledger()
    figures = part(ledger, 2, 0)["figures"]
    named = next(key for key in figures if key.endswith("_before"))
    figures[named] += 1
    await bench.rewrite(ledger)
    assert (await bench.audit()).counts[Kind.CHAIN]


async def test_differences_are_counted_beyond_those_that_are_kept(bench: Bench) -> None:
    await bench.rate(*(match(f"m-{n}", (f"a{n}", f"b{n}")) for n in range(150)))
    await bench.redis.delete(bench.keys.leaderboard)
    report = await bench.audit(repair=True)
    assert (report.total, len(report.first), report.repaired_players, report.remaining) == (300, 100, 300, 0)
    assert not (await bench.audit()).total


async def trimmed(bench: Bench, after: int) -> list[tuple[str, bytes]]:
    """Trims the ledger; returns what was taken from it."""
    entries = await bench.redis.xrange(bench.keys.outbox)
    await bench.redis.xtrim(bench.keys.outbox, minid=entries[after][0], approximate=False)
    return [(entry_id.decode(), fields[b"message"]) for entry_id, fields in entries[:after]]


@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_trimmed_ledger_is_vouched_for_as_far_as_it_goes(
    redis: Redis, ladder: str, name: str, tmp_path: Path
) -> None:
    bench = Bench(redis, ladder, SYSTEMS[name]())
    await bench.rate(match("early", ("eve", "fay"), length=3), *bench.traffic(random.Random(5), 100))
    taken = await trimmed(bench, 40)
    report = await bench.audit()
    assert not report.total, report.first
    assert (report.complete, report.partial, report.unverifiable) == (False, 6, 2)
    assert report.since == int((await bench.events())[0].id.split("-")[0])
    # With the archive in front it is whole again
    with Archive(tmp_path / "ledger.db", writable=True) as archive:
        archive.append(ladder, taken)
        report = await bench.audit(archive=archive)
    assert not report.total, report.first
    assert (report.complete, report.since) == (True, int(taken[0][0].split("-")[0]))
    # And what it can know it still finds
    await bench.redis.hincrby(bench.keys.player("p0"), "sequence", 1)
    await bench.redis.zadd(bench.keys.leaderboard, {"eve": 1, "p1": 2})
    report = await bench.audit(repair=True)
    assert dict(report.counts) == {Kind.SEQUENCE: 1, Kind.LEADERBOARD: 2}
    assert report.repaired == 2


async def test_events_that_are_archived_while_it_reads_are_not_missed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await bench.rate(*bench.traffic(random.Random(7), 120))
    monkeypatch.setattr("match_ratings_worker.ledger.read_ledger._PAGE", 7)
    archive = Archive(tmp_path / "ledger.db", writable=True)
    fed = 0

    async def archive_some() -> None:
        taken = await trimmed(bench, 25)
        archive.append(bench.ladder, taken)

    real = bench.redis.pipeline

    class Pipe:
        """Archives and trims just before a page is read."""

        def __init__(self) -> None:
            self.pipe = real(transaction=False)

        async def __aenter__(self) -> Any:
            nonlocal fed
            fed += 1
            if fed in (1, 3):
                await archive_some()
            return await self.pipe.__aenter__()

        async def __aexit__(self, *error: object) -> None:
            await self.pipe.__aexit__(*error)

    monkeypatch.setattr(bench.redis, "pipeline", lambda transaction=True: Pipe())
    report = await bench.audit(archive=archive)
    assert not report.total, report.first
    assert report.complete
    # Without an archive it begins anew
    fed = 0
    report = await bench.audit()
    archive.close()
    assert not report.total, report.first
    assert not report.complete


async def bring(bench: Bench, *lines: dict[str, Any], replace: bool = False) -> None:
    """Imports players from another rater."""
    store = bench.engine().store
    await store.join_group()
    await store.ensure_adopted()
    reader = PlayerReader(bench.system, bench.now)
    records = [reader.json(orjson.dumps(line)) for line in lines]
    taken = await Importer(store, horizon=HORIZON, replace=replace).import_chunk(records)
    assert {item.outcome for item in taken} <= {"imported", "replaced"}


async def test_imported_players_are_vouched_for(bench: Bench) -> None:
    games = [{"match_id": f"old-{n}", "finished_at": bench.now - DAY - n} for n in range(49)]
    ada = {"player": "ada", "rating": 1777, "games": 60, "last_game": bench.now - DAY, "recent_games": games}
    await bring(bench, ada, {"player": "bob", "rating": 1444, "games": 3})
    await bench.rate(match("m-1"), match("m-2"), bench.void("m-1"))
    report = await bench.audit()
    assert not report.total, report.first
    assert report.complete
    await bench.redis.zrem(bench.keys.games("ada"), "old-7")
    report = await bench.audit(repair=True)
    assert dict(report.counts) == {Kind.WINDOW: 1} and not report.remaining
    assert len(await bench.games("ada")) == 50


async def test_an_import_may_replace_a_player_whose_game_is_taken_back_later(bench: Bench) -> None:
    await bench.rate(match("m-1"), match("m-2"))
    await bring(bench, {"player": "ada", "rating": 1777, "games": 60}, replace=True)
    await bench.rate(bench.void("m-1"), match("m-3"))
    report = await bench.audit()
    assert not report.total, report.first
    assert set(await bench.games("ada")) == {"m-3"}


async def test_each_event_is_judged_by_the_settings_that_were_adopted_then(bench: Bench) -> None:
    await bench.rate(match("m-1"), match("m-2"))
    dated = Backgammon.model_validate({"start": 1500, "rules": {"1.3.1": bench.now + 9 * DAY}})
    later = Bench(bench.redis, bench.ladder, dated)
    line, digest = ClientExecutor(bench.redis), settings_digest(bench.system)
    assert await adopt(line, bench.keys, dated, expected_digest=digest, who="a test", why="other rules")
    await later.rate(match("m-3"), later.void("m-1"))
    assert [event.rules for event in await bench.events()] == ["1.3.1", "1.3.1", "1.2.0", "1.3.1"]
    for configured in (bench, later):
        report = await configured.audit()
        assert not report.total, report.first


async def test_progress_is_told(bench: Bench) -> None:
    await played(bench)
    told: list[tuple[str, int, int]] = []
    await audit_ladder(
        Ledger(bench.handle), progress=lambda what, done, total: told.append((what, done, total))
    )
    assert {what for what, _, _ in told} == {"Replaying the ledger", "Comparing players", "Checking details"}
    assert all(done <= total for _, done, total in told)
