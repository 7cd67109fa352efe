"""The archive: events are in the file, on the disk, before they leave Redis; readers go on from there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from embedded import Endpoint
from match_ratings_worker.environment_variables import Settings, load_settings
from match_ratings_worker.jobs.cron_jobs import trim_ledgers
from match_ratings_worker.ladders_file import ConfigError, Ladder
from match_ratings_worker.ledger import Archive, ArchiveMismatch, Archiver
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.runtime.worker_context import WorkerContext
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import DAY, now_ms
from tests.support.command_line import Cli, Site
from tests.support.migration import payload
from tests.support.waiting import PATIENCE, until

#: How long the tests keep events.
KEEP = 20 * DAY


def write(redis: Any, keys: Keys, ages: list[float]) -> list[str]:
    """Adds events that are so many days old; returns their ids."""
    now = now_ms()
    with redis.pipeline(transaction=False) as pipe:
        for number, age in enumerate(ages):
            event = payload(number, "ada", f"p-{number}")
            pipe.xadd(keys.outbox, {"message": event}, id=f"{int(now - age * DAY)}-*")
        return [entry_id.decode() for entry_id in pipe.execute()]


def kept(redis: Any, keys: Keys) -> list[str]:
    return [entry_id.decode() for entry_id, _ in redis.xrange(keys.outbox)]


def assert_trimmed(redis: Any, keys: Keys, ids: list[str], first: int) -> None:
    """Whether events before the first were trimmed, but for the few that share a node of the stream."""
    left = len(kept(redis, keys))
    assert kept(redis, keys) == ids[len(ids) - left :]
    assert len(ids) - first <= left < len(ids) - first + 15


# --- copying and trimming ---


class House:
    """A ladder's ledger and an archivist."""

    def __init__(self, site: Site, path: Path | None, **options: Any) -> None:
        self.site, self.path, self.options = site, path, options

    def run(self, times: int = 1, *, adopt: bool = False) -> list[tuple[int, int]]:
        async def main() -> list[tuple[int, int]]:
            archive = Archive(self.path, writable=True) if self.path else None
            try:
                async with connect(self.site.url) as redis:
                    options = {"keep": KEEP, **self.options}
                    archiver = Archiver(redis, archive, **options)
                    if adopt:
                        await archiver.adopt(self.site.ladder, self.site.keys)
                    return [
                        tuple(await archiver.run(self.site.ladder, self.site.keys))  # type: ignore[misc]
                        for _ in range(times)
                    ]
            finally:
                if archive:
                    archive.close()

        return asyncio.run(main())

    def archived(self) -> list[str]:
        assert self.path
        with Archive(self.path) as archive:
            return [ledger_id for ledger_id, _ in archive.iterate(self.site.ladder)]


def test_events_are_archived_soon_and_trimmed_late(site: Any, tmp_path: Path) -> None:
    ages = [30.0] * 500 + [21.0] * 500 + [19.0] * 100 + [1.0] * 100 + [0.0] * 10
    ids = write(site.redis, site.keys, ages)
    house = House(site, tmp_path / "a.db")
    assert house.run()[0][0] == 1200
    assert house.archived() == ids[:1200]  # not those of the last minute
    assert_trimmed(site.redis, site.keys, ids, 1000)
    about = site.redis.hgetall(site.keys.archive)
    assert about[b"upto"].decode() == ids[1199]
    assert about[b"place"].decode().endswith(f":{tmp_path / 'a.db'}")
    assert house.run(2) == [(0, 0), (0, 0)]


def test_events_are_kept_for_as_long_as_a_match_can_be_voided(site: Any, tmp_path: Path) -> None:
    """A receipt outlives the horizon a little; with events kept no longer than that they must too."""
    ids = write(site.redis, site.keys, [20.3] * 300 + [20.05] * 300)
    House(site, tmp_path / "a.db").run()
    assert_trimmed(site.redis, site.keys, ids, 300)


def test_nothing_is_trimmed_when_events_are_kept_for_ever(site: Any, tmp_path: Path) -> None:
    ids = write(site.redis, site.keys, [1000.0] * 300)
    for path in (None, tmp_path / "a.db"):
        House(site, path, keep=0).run()
        assert kept(site.redis, site.keys) == ids
    assert House(site, tmp_path / "a.db").archived() == ids


def test_without_an_archive_events_are_trimmed_by_age(site: Any) -> None:
    ids = write(site.redis, site.keys, [30.0] * 25_000 + [1.0] * 10)
    House(site, None).run()  # however many there are
    assert_trimmed(site.redis, site.keys, ids, 25_000)


def test_a_run_ends_in_time_and_the_next_goes_on(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = write(site.redis, site.keys, [30.0] * 1000)
    monkeypatch.setattr("match_ratings_worker.ledger.archive_and_trim._LONGEST_RUN", 0)
    house = House(site, tmp_path / "a.db", page=100)
    first = house.run()
    assert first[0][0] == 100
    assert site.redis.xlen(site.keys.outbox) >= 900  # nothing that is not in the file
    house.run(20)
    assert house.archived() == ids


def test_a_worker_without_the_file_does_not_trim(site: Any, tmp_path: Path) -> None:
    ids = write(site.redis, site.keys, [30.0] * 300)
    House(site, tmp_path / "a.db", keep=1000 * DAY).run()
    assert House(site, None).run() == [(0, 0)]
    assert kept(site.redis, site.keys) == ids
    # When nobody has written the archive for long, that is said.
    site.redis.hset(site.keys.archive, "at", now_ms() - 3 * DAY)
    with pytest.raises(ArchiveMismatch, match=r"a\.db\", was written 3 days ago"):
        House(site, None).run()


def test_a_second_archive_is_refused_until_it_is_adopted(site: Any, tmp_path: Path) -> None:
    write(site.redis, site.keys, [30.0] * 300)
    House(site, tmp_path / "a.db").run()
    more = write(site.redis, site.keys, [25.0] * 300)
    second = House(site, tmp_path / "b.db")
    with pytest.raises(ArchiveMismatch, match=r"is not the archive of ladder .*a\.db"):
        second.run()
    assert kept(site.redis, site.keys)[-300:] == more
    assert second.archived() == []
    assert second.run(adopt=True)[0][0] >= 300
    assert second.archived()[-300:] == more
    with pytest.raises(ArchiveMismatch, match="is not the archive"):
        House(site, tmp_path / "a.db").run()


def test_an_old_copy_of_the_archive_is_refused(site: Any, tmp_path: Path) -> None:
    write(site.redis, site.keys, [30.0] * 10)
    house = House(site, tmp_path / "a.db")
    house.run()
    before = (tmp_path / "a.db").read_bytes()
    last = write(site.redis, site.keys, [25.0] * 10)
    house.run()
    for name in ("a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "a.db").write_bytes(before)
    with pytest.raises(
        ArchiveMismatch, match=f"is an old copy: it ends at .*, and had events .* up to {last[-1]}"
    ):
        house.run()


def test_two_processes_with_one_file_do_no_harm(site: Any, tmp_path: Path) -> None:
    ids = write(site.redis, site.keys, [30.0] * 3000)

    async def main() -> list[Any]:
        archives = [Archive(tmp_path / "a.db", writable=True) for _ in range(3)]
        async with connect(site.url) as redis:
            archivists = [Archiver(redis, archive, keep=KEEP, page=100) for archive in archives]
            done = await asyncio.gather(*(one.run(site.ladder, site.keys) for one in archivists))
        for archive in archives:
            archive.close()
        return done

    done = asyncio.run(main())
    assert sum(run.archived for run in done) == 3000
    assert House(site, tmp_path / "a.db").archived() == ids


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from match_ratings_worker.ledger import sqlite_archive as archive
from match_ratings_worker.ledger import archive_and_trim as archivist
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
url, ladder, path, step, number = sys.argv[1:]
calls = {"append": 0, "commit": 0, "note": 0, "trim": 0}
def passed(name, when):
    if when == "before":
        calls[name] += 1
    if step == f"{when} {name}" and calls[name] == int(number):
        os.kill(os.getpid(), signal.SIGKILL)
original_append = archive.Archive.append
def append(self, ladder, events):
    passed("append", "before")
    done = original_append(self, ladder, events)
    passed("append", "after")
    return done
archive.Archive.append = append
original_about = archive._index_fields
def about(payload):
    passed("commit", "before")  # in the middle of a transaction
    return original_about(payload)
archive._index_fields = about
original_script = archivist.Script.__call__
async def call(self, line, keys, args):
    name = "trim" if self.sha == archivist.Script("trim_ledger").sha else "note"
    passed(name, "before")
    reply = await original_script(self, line, keys, args)
    passed(name, "after")
    return reply
archivist.Script.__call__ = call
async def main():
    file = archive.Archive(Path(path), writable=True)
    async with connect(url) as redis:
        await archivist.Archiver(redis, file, keep=20 * 86_400_000, page=100).run(ladder, Keys(ladder))
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("step", "number"),
    [
        ("before note", 1),
        ("after note", 1),
        ("before append", 1),
        ("before commit", 150),
        ("after append", 2),
        ("before note", 3),
        ("after note", 3),
        ("before trim", 1),
        ("after trim", 1),
    ],
)
def test_killed_at_each_step_nothing_is_lost(site: Any, tmp_path: Path, step: str, number: int) -> None:
    ids = write(site.redis, site.keys, [30.0] * 300 + [1.0] * 50)
    command = [
        sys.executable,
        "-c",
        _KILLED,
        site.url,
        site.ladder,
        str(tmp_path / "a.db"),
        step,
        str(number),
    ]
    ended = subprocess.run(command, capture_output=True, timeout=30)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    house = House(site, tmp_path / "a.db", page=100)
    # What is gone from Redis is in the file.
    left = kept(site.redis, site.keys)
    if len(left) < 350:
        assert set(house.archived()) >= set(ids) - set(left)
    # And the next run completes it.
    house.run()
    assert house.archived() == ids
    assert_trimmed(site.redis, site.keys, ids, 300)


# --- the worker ---


def test_events_must_be_kept_as_long_as_matches_can_be_voided(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("RATINGS_KEEP_EVENTS_DAYS", "13")
    with pytest.raises(ConfigError, match="RATINGS_KEEP_EVENTS_DAYS: 13 is not allowed") as caught:
        load_settings()
    assert str(caught.value).count("RATINGS_") == 2
    for days in ("14", "0"):
        settings.setenv("RATINGS_KEEP_EVENTS_DAYS", days)
        load_settings()


def test_a_worker_archives_from_its_start_on(site: Any, spawn: Any, tmp_path: Path) -> None:
    ids = write(site.redis, site.keys, [100.0] * 500)
    worker = spawn("worker", env={**os.environ, "RATINGS_ARCHIVE": str(tmp_path / "a.db")})
    try:
        until(lambda: not site.redis.xlen(site.keys.outbox))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.communicate()
    assert House(site, tmp_path / "a.db").archived() == ids


@pytest.mark.parametrize("command", [["worker"], ["worker", "--processes", "2"]])
def test_a_worker_does_not_start_with_a_file_that_is_no_archive(
    site: Any, spawn: Any, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "text").write_text("x" * 1000)
    worker = spawn(*command, env={**os.environ, "RATINGS_ARCHIVE": str(tmp_path / "text")})
    _, err = worker.communicate(timeout=20)
    assert worker.returncode == 2
    assert b"is not a database" in err and b"Traceback" not in err


async def test_housekeeping_trims_where_there_is_no_archive(
    server: Endpoint, ladder: str, settings: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for archive in (None, tmp_path / "a.db"):
        name = ladder if archive is None else f"{ladder}-two"
        with server.client() as client:
            write(client, Keys(name), [100.0] * 300)
        context = WorkerContext(
            Settings(redis_url=server.url, archive=archive), {name: Ladder(name=name, system=Backgammon())}
        )
        await trim_ledgers({"worker": context})
        assert await context.redis.xlen(Keys(name).outbox) == (0 if archive is None else 300)
        context.archiver.close()
        await context.redis.aclose()


async def test_what_goes_wrong_is_logged_once(server: Endpoint, ladder: str, tmp_path: Path) -> None:
    async with connect(server.url) as redis:
        keys = Keys(ladder)
        await redis.hset(keys.archive, mapping={"id": "another", "place": "moon:/a.db"})  # type: ignore[misc]
        with Archive(tmp_path / "a.db", writable=True) as archive, capture_logs() as logs:
            archiver = Archiver(redis, archive, keep=KEEP)
            for _ in range(3):
                await archiver.run_and_log(ladder, keys)
            await redis.delete(keys.archive)
            await archiver.run_and_log(ladder, keys)
    assert [(item["log_level"], item["event"]) for item in logs] == [
        ("error", "archiving failed"),
        ("info", "archiving works again"),
    ]
    assert "moon:/a.db" in logs[0]["error"]


# --- who reads on from there ---


def test_player_explain_and_audit_read_on_in_the_archive(
    site: Any, call: Cli, settings: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Given matches whose events are in the archive only, and later ones in Redis
    site.rate(*(site.match(f"m-{n}") for n in range(8)))
    with Archive(tmp_path / "a.db", writable=True) as archive:
        for entry_id, fields in site.redis.xrange(site.keys.outbox, count=5):
            archive.append(site.ladder, [(entry_id.decode(), fields[b"message"])])
    cut = site.redis.xrange(site.keys.outbox, count=6)[-1][0]
    site.redis.xtrim(site.keys.outbox, minid=cut, approximate=False)
    shown = call("player", "ada", "--json").json["changes"]
    assert [event["match_id"] for event in shown] == ["m-7", "m-6", "m-5"]
    assert "no longer kept" in call("explain", "m-2").err
    # When the archive is named
    settings.setenv("RATINGS_ARCHIVE", str(tmp_path / "a.db"))
    # Then all of it is there
    shown = call("player", "ada", "--json").json["changes"]
    assert [event["match_id"] for event in shown] == [f"m-{n}" for n in range(7, -1, -1)]
    assert [
        event["match_id"] for event in call("player", "ada", "--changes", "4", "--json").json["changes"]
    ] == ["m-7", "m-6", "m-5", "m-4"]
    explained = call("explain", "m-2", "--json")
    assert explained.code == 0 and explained.json["event"]["players"][0]["sequence"] == 3
    audited = call("audit", "--json")
    assert audited.code == 0, audited.out
    assert audited.json["events"] == 8


def test_a_ledger_that_begins_in_the_archive_is_compared_whole(
    site: Any, call: Cli, settings: pytest.MonkeyPatch, tmp_path: Path, players: Callable[..., str]
) -> None:
    site.rate(site.match("m-1"), site.match("m-2"))
    (first, fields), *_ = site.redis.xrange(site.keys.outbox)
    with Archive(tmp_path / "a.db", writable=True) as archive:
        archive.append(site.ladder, [(first.decode(), fields[b"message"])])
    site.redis.xdel(site.keys.outbox, first)
    settings.setenv("RATINGS_ARCHIVE", str(tmp_path / "a.db"))
    changes = [{"match_id": "m-1", "player": "ada", "change": 16, "after": 1516}]
    found = call("compare", players(*changes), "--authoritative", "--json").json
    assert (found["equal"], found["only_new"]) == (1, 3)


def test_status_and_adopt(site: Any, call: Cli, settings: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = call("archive", "status")
    assert result.code == 0 and "place             none yet" in result.out
    assert call("archive", "adopt", "--yes").err == "match-ratings: RATINGS_ARCHIVE: it is not set\n"
    write(site.redis, site.keys, [3.0] * 10)
    House(site, tmp_path / "lost.db").run()
    settings.setenv("RATINGS_ARCHIVE", str(tmp_path / "a.db"))
    assert call("archive", "adopt").code == 2  # nobody can be asked
    result = call("archive", "adopt", "--yes")
    assert (result.code, result.out) == (0, f"ladder {site.ladder} is archived in {tmp_path / 'a.db'}\n")
    House(site, tmp_path / "a.db").run()
    found = call("archive", "status", "--json").json
    assert (found["ours"], found["archived_events"], found["kept_events"]) == (True, 10, 10)
    assert found["last"] == found["upto"] == found["newest"]
    (tmp_path / "text").write_text("x" * 1000)
    settings.setenv("RATINGS_ARCHIVE", str(tmp_path / "text"))
    result = call("player", "ada")
    assert result.code in (1, 3) and result.err.count("\n") == 1
