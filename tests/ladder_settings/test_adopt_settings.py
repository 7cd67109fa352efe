"""Two configurations for one ladder, with real worker processes: only the adopted one rates."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from embedded import Endpoint
from match_ratings import RatingUpdated
from match_ratings.stream_names import FIELD
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import now_ms
from tests.support.processes import Worker, command, config_file
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LONG_AGO = "2020-01-01T00:00:00Z"


class Traffic:
    """Sends matches, one every few ms, until it is stopped."""

    def __init__(self, redis: Redis, ladder: str) -> None:
        self.redis, self.ladder, self.inbox = redis, ladder, Keys(ladder).inbox
        self.sent: dict[str, int] = {}
        #: When the next match finished, in ms.
        self.finished_at: Callable[[int], int] = lambda number: now_ms() - 1000
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            self.send()

    def send(self) -> None:
        number = len(self.sent)
        at = self.finished_at(number)
        players = [f"p{number % 7}", f"q{number % 11}"]
        match = {"match_id": f"m{number}", "ladder": self.ladder, "players": players, "winner": players[0]}
        self.sent[f"m{number}"] = at
        self.redis.xadd(self.inbox, {FIELD: json.dumps({**match, "finished_at": at})})


@pytest.fixture
def site(server: Endpoint, ladder: str) -> Iterator[tuple[str, Redis, Keys]]:
    with server.client() as redis:
        yield server.url, redis, Keys(ladder)


def events(redis: Redis, keys: Keys) -> list[RatingUpdated]:
    found: Any = redis.xrange(keys.outbox)
    return [
        RatingUpdated.model_validate_json(fields[b"message"]).model_copy(update={"id": entry_id.decode()})
        for entry_id, fields in found
    ]


def place(ledger_id: str) -> tuple[int, ...]:
    return tuple(map(int, ledger_id.split("-")))


def test_only_workers_with_the_adopted_settings_rate_and_adopting_switches_while_running(
    site: Any, ladder: str, tmp_path: Path
) -> None:
    url, redis, keys = site
    one = config_file(tmp_path / "one.toml", ladder, rules={"1.2.0": LONG_AGO})
    two = config_file(tmp_path / "two.toml", ladder, rules={"1.3.1": LONG_AGO})
    with Worker.running(url, one, tmp_path / "a.log") as first:
        until(lambda: redis.exists(keys.settings))
        with Worker.running(url, two, tmp_path / "b.log") as second, Traffic(redis, ladder) as traffic:
            # Given two workers with different settings, the first rates and the other says why it does not.
            until(lambda: second.said("not rating: other settings are adopted"))
            until(lambda: redis.xlen(keys.outbox) > 100)
            assert {event.rules for event in events(redis, keys)} == {"1.2.0"}
            # When the other's are adopted while matches come in
            refused = command("ladder", "adopt", "--why", "test", "--yes", url=url, config=two)
            assert refused.returncode == 2 and "were rated by rules 1.2.0 and would be" in refused.stderr
            assert "--force adopts it all the same" in refused.stderr
            done = command(
                "ladder",
                "adopt",
                "--why",
                "new divisor",
                "--by",
                "ops",
                "--yes",
                "--force",
                url=url,
                config=two,
            )
            adopted = time.time()
            assert done.returncode == 0, done.stderr
            # Then the first stops at once and the second starts within two seconds, without a restart.
            shown = command("ladder", "show", "--json", url=url, config=two).json
            after = place(shown["adopted"]["after"])
            until(lambda: place(events(redis, keys)[-1].id or "") > after, pause=0.05)
            first_by_new = next(event for event in events(redis, keys) if place(event.id or "") > after)
            assert first_by_new.rated_at / 1000 - adopted < 2
            until(lambda: first.said("not rating: other settings are adopted"))
            assert first.process.poll() is None
            traffic.stop()
            until(lambda: redis.xlen(keys.inbox) == 0)
    # And nothing is lost, nothing is rated twice, and nothing by the wrong settings.
    found = events(redis, keys)
    assert sorted(event.match_id or "" for event in found) == sorted(traffic.sent)
    assert redis.xlen(keys.dead_letters) == 0
    for event in found:
        assert event.rules == ("1.2.0" if place(event.id or "") <= after else "1.3.1")
    latest, first_of_all = shown["history"]
    assert shown["same_as_here"] and (latest["who"], latest["why"]) == ("ops", "new divisor")
    assert first_of_all["who"].startswith("the first worker")


def test_a_rolling_deploy_of_a_dated_rule_change(site: Any, ladder: str, tmp_path: Path) -> None:
    url, redis, keys = site
    # So soon that matches of both sides of it come within the test; by the book it would be a day.
    begins = now_ms() + 90_000
    old = config_file(tmp_path / "old.toml", ladder, rules={"1.2.0": LONG_AGO})
    new = config_file(tmp_path / "new.toml", ladder, rules={"1.2.0": LONG_AGO, "1.3.1": begins})
    with (
        Worker.running(url, old, tmp_path / "a.log") as a,
        Worker.running(url, old, tmp_path / "b.log") as b,
        Traffic(redis, ladder) as traffic,
    ):
        until(lambda: redis.xlen(keys.outbox) > 50)
        # One worker is replaced, the settings are adopted, the other worker is killed and replaced.
        a.stop()
        with Worker.running(url, new, tmp_path / "c.log", RATINGS_IDLE_SECONDS="1") as c:
            until(lambda: c.said("not rating"))
            done = command("ladder", "adopt", "--why", "1.3.1", "--yes", "--force", url=url, config=new)
            assert done.returncode == 0, done.stderr
            # From now on matches come that finished before the rules changed, and after.
            traffic.finished_at = lambda number: begins + (number % 3 - 1) * 60_000
            seen = redis.xlen(keys.outbox)
            until(lambda: redis.xlen(keys.outbox) > seen + 50)
            b.kill()
            with Worker.running(url, new, tmp_path / "d.log", RATINGS_IDLE_SECONDS="1"):
                seen = redis.xlen(keys.outbox)
                until(lambda: redis.xlen(keys.outbox) > seen + 100)
                traffic.stop()
                until(lambda: redis.xlen(keys.inbox) == 0)
    found = events(redis, keys)
    assert sorted(event.match_id or "" for event in found) == sorted(traffic.sent)
    by_rules = {rules: [event for event in found if event.rules == rules] for rules in ("1.2.0", "1.3.1")}
    assert all(event.finished_at < begins for event in by_rules["1.2.0"])
    assert all(event.finished_at >= begins for event in by_rules["1.3.1"])
    assert len(by_rules["1.2.0"]) + len(by_rules["1.3.1"]) == len(found) and by_rules["1.3.1"]
