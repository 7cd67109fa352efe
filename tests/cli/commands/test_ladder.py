"""`ladder show`, `diff` and `adopt` by themselves: what they print, keep and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded import Endpoint
from match_ratings import RatingUpdated
from match_ratings_worker.ladder_settings.adopt_settings import Adoption, UnknownSettings, settings_digest
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory
from match_ratings_worker.rating import Backgammon, Fide, Glicko2
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.processes import Ended, command, config_file

LONG_AGO = "2020-01-01T00:00:00Z"
Run = Callable[..., Ended]


class Site:
    """A ladder, and a configuration of it that a test may change."""

    def __init__(self, url: str, redis: Any, ladder: str, directory: Path) -> None:
        self.url, self.redis, self.ladder, self.keys = url, redis, ladder, Keys(ladder)
        self._file = directory / "ladders.toml"
        self.configure()

    def configure(self, **settings: Any) -> None:
        config_file(self._file, self.ladder, **settings)

    def call(self, *arguments: str) -> Ended:
        return command("ladder", *arguments, url=self.url, config=self._file)

    def adopt(self, *options: str) -> Ended:
        return self.call("adopt", "--why", "a test", "--yes", *options)

    def use(self) -> None:
        """Makes the ladder one that has rated matches."""
        self.redis.hset(self.keys.counts, "rated", 12)


@pytest.fixture
def site(server: Endpoint, ladder: str, tmp_path: Path) -> Iterator[Site]:
    with server.client() as redis:
        yield Site(server.url, redis, ladder, tmp_path)


def test_nothing_is_adopted_yet(site: Site) -> None:
    for name in ("show", "diff"):
        result = site.call(name)
        assert result.returncode == 0 and not result.stdout
        assert "nothing is adopted for ladder" in result.stderr and result.stderr.count("\n") == 1
    assert site.call("show", "--json").json["adopted"] is None
    assert site.call("diff", "--json").json["differences"] == []


def test_adopting_is_kept_with_who_why_and_when(site: Site) -> None:
    site.configure(rules={"1.2.0": LONG_AGO})
    done = site.adopt("--by", "ada")
    assert done.returncode == 0 and "these settings are adopted (backgammon, " in done.stdout
    site.configure(system="glicko2")
    assert site.adopt("--json", "--by", "bob").json["changed"]
    shown = site.call("show")
    assert shown.returncode == 0 and not shown.stderr
    assert "by bob" in shown.stdout and "listed_rd" in shown.stdout and "the same" in shown.stdout
    found = site.call("show", "--json").json
    assert [item["who"] for item in found["history"]] == ["bob", "ada"]
    assert found["history"][1]["settings"] == {"start": 1500, "rules.1.2.0": 1577836800000}
    assert found["adopted"] == found["history"][0]
    assert found["adopted"]["digest"] == settings_digest(Glicko2())
    assert site.redis.hget(site.keys.settings, "digest") == settings_digest(Glicko2()).encode()


def test_adopting_what_is_adopted_changes_nothing(site: Site) -> None:
    site.adopt()
    again = site.adopt()
    assert again.returncode == 0 and "are adopted already" in again.stdout
    assert site.redis.xlen(site.keys.settings_history) == 1


def test_diff_shows_each_setting_and_the_dangers(site: Site) -> None:
    site.configure(rules={"1.2.0": LONG_AGO})
    site.adopt()
    assert "is the adopted one" in site.call("diff").stdout
    site.use()
    site.configure(rules={"1.2.0": LONG_AGO, "1.3.1": "2021-01-01T00:00:00Z"}, start=1600)
    shown = site.call("diff")
    assert shown.returncode == 0
    rows = [line.split("  ") for line in shown.stdout.splitlines()]
    assert any(row[0] == "start" and row[-1].strip() == "1600" for row in rows)
    assert any(row[0] == "rules.1.3.1" and row[-1].strip() == "2021-01-01 00:00:00Z" for row in rows)
    assert "! rules: games that finished since 2021-01-01 00:00:00Z were rated by rules 1.2.0" in shown.stderr
    assert "! start: the change from 1500 to 1600 has no date" in shown.stderr
    document = site.call("diff", "--json").json
    assert len(document["dangers"]) == 2
    assert {"setting": "start", "adopted": 1500, "here": 1600} in document["differences"]


def test_a_dangerous_change_needs_force_and_the_reason_is_said(site: Site) -> None:
    site.adopt()
    site.use()
    site.configure(system="glicko2")
    refused = site.adopt()
    assert refused.returncode == 2
    assert "12 changes were made by backgammon, and glicko2 would go on" in refused.stderr
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"match-ratings: ladder {site.ladder}: this changes the rules for games that have")
    assert "nothing was adopted (--force adopts it all the same)" in last
    assert site.redis.hget(site.keys.settings, "digest") == settings_digest(Backgammon()).encode()
    forced = site.adopt("--force")
    assert forced.returncode == 0 and "12 changes were made" in forced.stderr


def test_a_date_in_the_future_needs_no_force(site: Site) -> None:
    site.configure(rules={"1.2.0": LONG_AGO})
    site.adopt()
    site.use()
    site.configure(rules={"1.2.0": LONG_AGO, "1.3.1": "2099-01-01T00:00:00Z"})
    done = site.adopt()
    assert done.returncode == 0 and not done.stderr


def test_who_was_faster_wins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.adopt()
    site.configure(start=1600)
    from match_ratings_worker.ladder_settings import adopt_settings as adoption

    real = adoption.adopt

    async def too_late(*arguments: Any, **options: Any) -> bool:
        site.redis.hset(site.keys.settings, "digest", "another")  # between the look and the change
        return await real(*arguments, **options)

    monkeypatch.setattr(adoption, "adopt", too_late)
    refused = site.adopt()
    assert refused.returncode == 2 and "somebody else has adopted other settings meanwhile" in refused.stderr
    assert site.redis.xlen(site.keys.settings_history) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--why", " "], '--why: " " is not allowed; 1-500 printable characters'),
        (["--why", "x" * 501], "--why: "),
        (["--why", "a\nb"], '--why: "a\\nb" is not allowed'),
        (["--why", "x", "--by", ""], '--by: "" is not allowed'),
        ([], "missing option '--why'"),
    ],
)
def test_who_and_why_are_checked(site: Site, options: list[str], words: str) -> None:
    result = site.call("adopt", *options)
    assert result.returncode == 2 and words in result.stderr


def test_nobody_can_be_asked_without_a_terminal(site: Site) -> None:
    site.adopt()
    site.configure(start=1600)
    result = site.call("adopt", "--why", "x")
    assert result.returncode == 2 and "--yes: it is required where nobody can be asked" in result.stderr


def test_settings_that_this_version_cannot_read(site: Site) -> None:
    site.adopt()
    site.use()
    strange = {"digest": "d", "system": "nosuch", "settings": json.dumps({"x": 1})}
    site.redis.hset(site.keys.settings, mapping=strange)
    shown = site.call("diff")
    assert "there is no system of this name here" in shown.stderr
    assert "the adopted settings cannot be read here" in shown.stderr
    assert site.adopt().returncode == 2
    with pytest.raises(UnknownSettings, match='start: "x" is not allowed: input should be a valid integer'):
        Adoption("d", "backgammon", '{"start": "x"}', 0, "", "", "0-0").rating_system()


def test_which_settings_an_event_was_rated_by() -> None:
    def adoption(name: str, after: str) -> Adoption:
        return Adoption(name, "fide", json.dumps({"start": starts[name]}), 0, "", "", after)

    starts = {"a": 1000, "b": 1100, "c": 1200}
    event = RatingUpdated.model_construct(system="fide")

    newest_first = [adoption("c", "20-5"), adoption("b", "20-0"), adoption("a", "0-0")]
    for ledger_id, name in (
        ("1-0", "a"),
        ("20-0", "a"),
        ("20-1", "b"),
        ("20-5", "b"),
        ("20-6", "c"),
        ("100-0", "c"),
    ):
        found = SettingsHistory(Fide(), newest_first).system_of(ledger_id, event)
        assert found == Fide(start=starts[name])
    assert SettingsHistory(Fide(), []).system_of("1-0", event) == Fide()
