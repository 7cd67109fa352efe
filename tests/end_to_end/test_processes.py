"""Real worker processes at a real server: killed, frozen, stopped, and left without Redis.

However that goes, the ladders must end as one undisturbed worker would leave them, and as the model says.
The only limits of time are generous ones, after which something is taken to hang.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded import Server
from match_ratings.stream_names import FIELD, JOB, QUEUE
from match_ratings_worker.storage.worker_liveness import HANDOVER_CONSUMER
from tests.support.clock import DAY, now_ms
from tests.support.model import HORIZON, Model, Picture, match, raw, stored, tournament
from tests.support.processes import environment
from tests.support.waiting import PATIENCE, until, until_at_rest

pytestmark = pytest.mark.slow

LADDERS = ("backgammon", "tavla")
CONFIG = (
    '[ladders.backgammon]\n\n[ladders.tavla]\nstart = 1000\nrules = { "1.3.1" = "2020-01-01T00:00:00Z" }\n'
)
NOW = now_ms()
#: What a worker says when it has lost Redis.
AWAY = ("Redis does not answer", "Redis unavailable")


class Crew:
    """Worker processes at one server."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server, self.directory = server, directory
        self.config = directory / "ladders.toml"
        self.config.write_text(CONFIG)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.started = 0

    def start(self, **settings: str) -> subprocess.Popen[bytes]:
        """Starts a worker as an operator would; RATINGS_* settings without their prefix."""
        self.started += 1
        other = {f"RATINGS_{name}": value for name, value in {"IDLE_SECONDS": "1", **settings}.items()}
        log = (self.directory / f"worker-{self.started}.log").open("wb")
        with log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "arq", "match_ratings_worker.settings.WorkerSettings"],
                env=environment(self.server.url, self.config, **other),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        self.workers.remove(worker)

    def stop(self, worker: subprocess.Popen[bytes]) -> None:
        """Sends SIGTERM and expects exit code 0."""
        worker.terminate()
        try:
            code = worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it has not ended {PATIENCE:g} s after SIGTERM\n{self.said()}")
        assert code == 0, self.said()
        self.workers.remove(worker)

    def alive(self) -> bool:
        return all(worker.poll() is None for worker in self.workers)

    def said(self, limit: int | None = 1500) -> str:
        """The ends of the workers' logs."""
        logs = sorted(self.directory.glob("worker-*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-(limit or 0) :]}" for log in logs)

    def until_stuck(self) -> None:
        """Waits until each worker waits for a reply of the frozen server."""
        until_at_rest(*(worker.pid for worker in self.workers), otherwise=self.said)

    def until_all_said(self, *words: str) -> None:
        """Waits until the log of each worker has one of these."""
        logs = list(self.directory.glob("worker-*.log"))
        until(
            lambda: all(any(item in log.read_text(errors="replace") for item in words) for log in logs),
            otherwise=self.said,
        )

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def crew(own_server: Server, tmp_path: Path) -> Iterator[Crew]:
    found = Crew(own_server, tmp_path)
    yield found
    found.close()


class Sent:
    """Messages of a ladder with their stream ids, in the order in which they were sent."""

    def __init__(self) -> None:
        self.by_ladder: dict[str, list[tuple[str, bytes]]] = {ladder: [] for ladder in LADDERS}

    def send(self, client: Any, messages: list[tuple[str, bytes]]) -> None:
        with client.pipeline(transaction=False) as pipe:
            for ladder, message in messages:
                pipe.xadd(f"ratings:{{{ladder}}}:match-finished", {FIELD: message})
            ids = pipe.execute()
        for (ladder, message), entry_id in zip(messages, ids, strict=True):
            self.by_ladder[ladder].append((entry_id.decode(), message))

    def expected(self, ladder: str) -> Picture:
        """What the model makes of them."""
        from match_ratings_worker.rating import Backgammon

        rules = {"start": 1000, "rules": {"1.3.1": "2020-01-01T00:00:00Z"}} if ladder == "tavla" else {}
        model = Model(ladder, now=NOW, system=Backgammon.model_validate(rules))
        return model.feed_all(self.by_ladder[ladder])


def matches(count: int, seed: int, players: int = 150) -> list[tuple[str, bytes]]:
    """(ladder, message): mostly right, with duplicates, conflicts, late ones, prizes and wrong ones."""
    draw = random.Random(seed)
    messages: list[tuple[str, bytes]] = []
    for number in range(count):
        if messages and draw.random() < 0.04:  # sent again, some time later
            messages.append(draw.choice(messages[-300:]))
            continue
        ladder = draw.choice(LADDERS)
        names = draw.sample(range(players), 2)
        # A few players are in most matches, so that their lines are long and their windows full.
        first, second = (f"p-{int(name * draw.random())}" for name in names)
        if first == second:
            second += "x"
        age = draw.randrange(13 * DAY) if draw.random() < 0.1 else DAY - number * DAY // count
        fields: dict[str, Any] = {"cube": draw.choice([1, 1, 2, 4, 64]), "finished_at": NOW - age}
        chance = draw.random()
        match_id = f"{seed}-{number}"
        if chance < 0.02 and number > 50:
            match_id = f"{seed}-{number - draw.randrange(1, 50)}"  # a conflict, unless that one was wrong
        elif chance < 0.04:
            fields["mode"] = draw.choice(["boosted", "casual", "tournament"])
        elif chance < 0.05:
            fields |= draw.choice([{"cube": 3}, {"winner": None}, {"version": 2}, {"ladder": "chess"}])
        elif chance < 0.055:
            fields["finished_at"] = draw.choice([NOW - HORIZON - DAY, NOW + DAY])
        message = match(match_id, (first, second), **{"ladder": ladder, **fields})
        message["ladder"] = fields.get("ladder", ladder)
        if chance > 0.995:
            message = tournament(match_id, (first, second), finished_at=NOW - age) | {"ladder": ladder}
        elif chance > 0.993:
            messages.append((ladder, b"\xff not a message " + match_id.encode()))
            continue
        messages.append((ladder, raw(message)))
    return messages[:count]


def backlog(client: Any) -> int:
    return sum(client.xlen(f"ratings:{{{ladder}}}:match-finished") for ladder in LADDERS)


def finished(client: Any, crew: Crew) -> None:
    """Waits until nothing is left; every worker must be alive then."""
    until(lambda: not backlog(client), 2 * PATIENCE, otherwise=crew.said)
    assert crew.alive(), crew.said()


def reaches(client: Any, ladder: str, events: int, crew: Crew) -> None:
    """Waits until the ladder has so many events."""
    outbox = f"ratings:{{{ladder}}}:rating-updated"
    until(lambda: client.xlen(outbox) >= events, pause=0.005, otherwise=crew.said)


def check(client: Any, sent: Sent) -> None:
    """The ladders must be as the model says, and nothing may have failed."""
    for ladder in LADDERS:
        found = stored(client, ladder)
        same(found, sent.expected(ladder))
        assert not any(reason == "failed" for _, reason, _ in found.dead)


def same(found: Picture, expected: Picture) -> None:
    # Compared part by part: the difference of two whole pictures would be shown for minutes.
    assert found.unfinished == []
    assert found.sequences == expected.sequences
    assert found.counts == expected.counts
    assert len(found.dead) == len(expected.dead)
    for part in ("ratings", "games", "last_game", "events", "dead", "windows", "receipts"):
        equal = getattr(found, part) == getattr(expected, part)
        assert equal, f"{part} differ"


def test_four_workers_killed_at_random_leave_the_ratings_of_one_undisturbed(
    crew: Crew, tmp_path: Path
) -> None:
    # Given 12,000 messages for two ladders
    messages = matches(12_000, seed=1)
    draw = random.Random(2)
    sent = Sent()
    for _ in range(4):
        crew.start(BATCH="64")
    with crew.server.client() as client:
        # When they come in bursts, and workers are killed in the middle of their work and started anew
        until(lambda: _consumers(client) == 4)
        for begin in range(0, len(messages), 480):
            before = backlog(client)
            sent.send(client, messages[begin : begin + 480])
            left = before + draw.randrange(160, 480)
            until(lambda: backlog(client) <= left, pause=0.002, otherwise=crew.said)  # noqa: B023
            if begin % 1440 == 0:
                crew.kill(draw.choice(crew.workers))
                crew.start(BATCH="64")
        finished(client, crew)
        # Then nothing is lost, nothing is rated twice, nothing has failed, and all is as the model says
        check(client, sent)
        assert "took over messages of a worker that is gone" in crew.said(limit=None)
        disturbed = {ladder: stored(client, ladder) for ladder in LADDERS}
    # And as one worker leaves it that nobody has disturbed
    (tmp_path / "other").mkdir()
    with Server() as other, other.client() as client:
        alone = Crew(other, tmp_path / "other")
        try:
            again = Sent()
            again.send(client, messages)
            alone.start()
            finished(client, alone)
            for ladder in LADDERS:
                undisturbed = stored(client, ladder)
                for picture in (undisturbed, disturbed[ladder]):
                    # A dead letter names its message's place in the inbox, which is another one here.
                    picture.dead = sorted(("", reason, message) for _, reason, message in picture.dead)
                same(disturbed[ladder], undisturbed)
        finally:
            alone.close()


def _consumers(client: Any) -> int:
    key = f"ratings:{{{LADDERS[0]}}}:match-finished"
    if not client.exists(key) or not client.xinfo_groups(key):
        return 0
    return sum(
        consumer["name"] != HANDOVER_CONSUMER.encode() for consumer in client.xinfo_consumers(key, "raters")
    )


def _beating(client: Any, since: int) -> int:
    """How many workers have given a heartbeat for each ladder since then (ms), the least of all ladders."""
    beats = [client.hvals(f"ratings:{{{ladder}}}:heartbeats") for ladder in LADDERS]
    return min(sum(int(float(beat)) > since for beat in of_ladder) for of_ladder in beats)


@pytest.mark.parametrize("away", ["killed", "stopped", "frozen"])
def test_redis_goes_away_during_load_and_comes_back(crew: Crew, away: str) -> None:
    # Given two workers under load
    messages = matches(6_000, seed=3)
    sent = Sent()
    for _ in range(2):
        crew.start()
    with crew.server.client() as client:
        until(lambda: _consumers(client) == 2, otherwise=crew.said)
        sent.send(client, messages[:3_000])
        reaches(client, "backgammon", 100, crew)
    # When Redis is away for some seconds in the middle of it
    if away == "frozen":
        crew.server.pause()
        crew.until_stuck()
        crew.server.resume()
    else:
        crew.server.stop() if away == "stopped" else crew.server.kill()
        crew.until_all_said(*AWAY)
        crew.server.start()
    # Then the workers go on by themselves
    with crew.server.client() as client:
        sent.send(client, messages[3_000:])
        finished(client, crew)
        check(client, sent)


def test_redis_crashes_again_and_again(crew: Crew) -> None:
    # Given two workers under load, when Redis crashes five times
    messages = matches(6_000, seed=4)
    sent = Sent()
    for _ in range(2):
        crew.start()
    for begin in range(0, len(messages), 1_200):
        with crew.server.client() as client:
            sent.send(client, messages[begin : begin + 1_200])
            goal = client.xlen("ratings:{tavla}:rating-updated") + 1
            reaches(client, "tavla", goal, crew)
        crew.server.restart(kill=True, down=0.3)
    with crew.server.client() as client:
        finished(client, crew)
        check(client, sent)


def test_sigterm_under_load_ends_soon_and_the_others_go_on_at_once(crew: Crew) -> None:
    # Given two workers under load that take over from silent ones only after minutes
    messages = matches(12_000, seed=5, players=10)
    sent = Sent()
    workers = [crew.start(IDLE_SECONDS="600") for _ in range(2)]
    with crew.server.client() as client:
        until(lambda: _consumers(client) == 2)
        sent.send(client, messages)
        reaches(client, "backgammon", 100, crew)
        # When one of them is stopped in the middle of it
        crew.stop(workers[0])
        # Then the other has everything
        finished(client, crew)
        check(client, sent)
        assert _consumers(client) == 1


def test_workers_come_and_go_in_good_order(crew: Crew) -> None:
    # Given a rolling update under load: each worker is replaced, several times over
    messages = matches(8_000, seed=6, players=10)
    sent = Sent()
    workers = [crew.start(IDLE_SECONDS="600", BATCH="32") for _ in range(2)]
    with crew.server.client() as client:
        until(lambda: _consumers(client) == 2)
        for begin in range(0, len(messages), 1_000):
            sent.send(client, messages[begin : begin + 1_000])
            workers.append(crew.start(IDLE_SECONDS="600", BATCH="32"))
            until(lambda: _consumers(client) == 3)
            crew.stop(workers.pop(0))
        finished(client, crew)
        check(client, sent)


def test_sigterm_while_jobs_come_in_ends_soon_too(crew: Crew) -> None:
    # Given a worker that works off jobs
    with crew.server.client() as client:
        for number in range(5):
            worker = crew.start(IDLE_SECONDS="600")
            until(lambda: _consumers(client) == 1)
            goal = client.xlen("ratings:{tavla}:rating-updated") + 1
            with client.pipeline(transaction=False) as pipe:
                for item in range(300):
                    name = f"{number}-{item}"
                    message = match(name, (f"a-{name}", f"b-{name}"), finished_at=NOW) | {"ladder": "tavla"}
                    job: dict[str, Any] = {"t": None, "f": JOB, "a": [message], "k": {}, "et": NOW}
                    pipe.set(f"arq:job:{name}", json.dumps(job))
                    pipe.zadd(QUEUE, {name: NOW})
                pipe.execute()
            reaches(client, "tavla", goal + number * 20, crew)
            # When it is stopped at some moment, then it ends in good order
            crew.stop(worker)
            assert _consumers(client) == 0
        # And nothing is lost: what is not rated at once is a job that arq keeps for a minute for the worker
        # that was about to begin it
        crew.start()
        until(lambda: all(client.exists(f"arq:in-progress:{name}") for name in _jobs(client)))
        until(lambda: not backlog(client))
        jobs = _jobs(client)
        rated = [
            json.loads(fields[b"message"])["match_id"]
            for _, fields in client.xrange("ratings:{tavla}:rating-updated")
        ]
        assert len(rated) == len(set(rated))
        assert {*rated, *jobs} == {f"{number}-{item}" for number in range(5) for item in range(300)}
        locks = [client.pttl(f"arq:in-progress:{name}") for name in jobs]
        assert len(locks) <= 20 and all(lock < 5 * 60_000 for lock in locks)


def _jobs(client: Any) -> list[str]:
    return [name.decode() for name in client.zrange(QUEUE, 0, -1)]


@pytest.mark.parametrize("away", ["down", "frozen"])
def test_sigterm_while_redis_is_away_ends_soon(crew: Crew, away: str) -> None:
    # Given a worker with matches in hand, when Redis goes away
    messages = matches(3_000, seed=7)
    sent = Sent()
    worker = crew.start()
    with crew.server.client() as client:
        sent.send(client, messages)
        reaches(client, "backgammon", 10, crew)
    if away == "down":
        crew.server.kill()
        crew.until_all_said(*AWAY)
    else:
        crew.server.pause()
        crew.until_stuck()
    # Then it can be stopped all the same
    try:
        crew.stop(worker)
    finally:
        crew.server.resume()
    # And what it had in hand is another's when Redis is back
    crew.server.start()
    crew.start()
    with crew.server.client() as client:
        finished(client, crew)
        check(client, sent)


def test_a_frozen_worker_that_wakes_up_changes_nothing_twice_and_works_on(crew: Crew) -> None:
    # Given a worker that freezes in the middle of its work
    messages = matches(6_000, seed=8, players=20)
    sent = Sent()
    frozen = crew.start()
    with crew.server.client() as client:
        sent.send(client, messages[:3_000])
        reaches(client, "backgammon", 10, crew)
        os.kill(frozen.pid, signal.SIGSTOP)
        # When another takes over everything, and more
        other = crew.start()
        sent.send(client, messages[3_000:5_000])
        until(lambda: not backlog(client))
        between = {ladder: stored(client, ladder) for ladder in LADDERS}
        # And the first one wakes up
        awake = client.time()[0] * 1000
        os.kill(frozen.pid, signal.SIGCONT)
        until(lambda: _beating(client, since=awake) == 2, otherwise=crew.said)
        # Then nothing has changed
        for ladder in LADDERS:
            same(stored(client, ladder), between[ladder])
        # And it works as before when it is the only one
        crew.stop(other)
        sent.send(client, messages[5_000:])
        finished(client, crew)
        check(client, sent)


def _share_of_a_core(client: Any, process: psutil.Process) -> float:
    """The share of one core that a process has used in the next three seconds of the server's clock."""
    begun, before = _seconds(client), process.cpu_times()
    until(lambda: _seconds(client) - begun >= 3)
    after, passed = process.cpu_times(), _seconds(client) - begun
    return float((after.user + after.system - before.user - before.system) / passed)


def _seconds(client: Any) -> float:
    seconds, micros = client.time()
    return float(seconds + micros / 1e6)


def test_an_idle_worker_costs_next_to_nothing_and_rates_what_comes(crew: Crew) -> None:
    # Given a worker with nothing to do
    sent = Sent()
    worker = crew.start()
    with crew.server.client() as client:
        until(lambda: _consumers(client) == 1)
        process = psutil.Process(worker.pid)
        until(lambda: _share_of_a_core(client, process) < 0.03, pause=0)
        # When a match comes
        sent.send(client, [("tavla", raw(match("m-1", finished_at=NOW) | {"ladder": "tavla"}))])
        # Then it is rated
        finished(client, crew)
        check(client, sent)
