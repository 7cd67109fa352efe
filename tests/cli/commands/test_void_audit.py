"""The commands void and audit, as a person or a script calls them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from embedded import Endpoint
from match_ratings_worker import cli
from match_ratings_worker.cli.commands import void_player
from match_ratings_worker.rating import Backgammon, GlickoPeriods, RatingSystem
from tests.support.bench import Bench, working
from tests.support.clock import DAY
from tests.support.model import match, tournament
from tests.support.processes import Worker, command, config_file
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("quiet")


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Site:
    """A ladder that is configured for the command line, and a way to call it."""

    def __init__(
        self,
        url: str,
        ladder: str,
        config: Path,
        capsys: Any,
        patch: pytest.MonkeyPatch,
        system: RatingSystem,
    ) -> None:
        self.url, self.ladder, self.config, self.system = url, ladder, config, system
        self._capsys, self._patch = capsys, patch

    def __call__(self, *arguments: str, answer: str | None = None) -> Result:
        self._patch.setattr(sys, "stdin", None)
        if answer is not None:
            self._patch.setattr(void_player, "confirm", lambda question: self.asked(question, answer))
        self._capsys.readouterr()
        code = cli.call(arguments)
        return Result(code, *self._capsys.readouterr())

    def asked(self, question: str, answer: str) -> None:
        self.question = question
        if answer != "y":
            raise KeyboardInterrupt

    def run(self, act: Callable[[Bench], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            async with Redis.from_url(self.url) as redis:
                return await act(Bench(redis, self.ladder, self.system))

        return asyncio.run(main())

    def rate(self, *messages: dict[str, Any]) -> None:
        self.run(lambda bench: bench.rate(*messages))

    def working(self) -> Any:
        return working(self.url, self.ladder, self.system)


@pytest.fixture
def make_site(
    server: Endpoint, ladder: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Site]:
    for name in os.environ:
        if name.startswith("RATINGS_"):
            monkeypatch.delenv(name)

    def make(rated_by: RatingSystem | None = None, **table: Any) -> Site:
        config = config_file(tmp_path / "ladders.toml", ladder, **table)
        monkeypatch.setenv("RATINGS_REDIS_URL", server.url)
        monkeypatch.setenv("RATINGS_CONFIG", str(config))
        monkeypatch.setenv("RATINGS_HORIZON_DAYS", "80")
        return Site(server.url, ladder, config, capsys, monkeypatch, rated_by or Backgammon())

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


def test_a_match_is_taken_back_and_a_second_time_it_is_said_so(site: Site) -> None:
    site.rate(match("m-1"), match("m-2"))
    with site.working():
        result = site("void", "m-1", "--why", "a cheat", "--by", "eve")
        again = site("void", "m-1", "--why", "a cheat", "--json")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert re.fullmatch(
        rf"m-1 on ladder {site.ladder} is voided, as event \d+-\d+: a cheat \(eve\)", lines[0]
    )
    assert [line.split() for line in lines[1:]] == [
        ["before", "change", "after", "player"],
        ["1532", "-16", "1516", "ada"],
        ["1468", "+16", "1484", "bob"],
    ]
    assert again.code == 0
    assert (again.json["outcome"], again.json["why"]) == ("already-voided", "a cheat (eve)")
    assert "was voided before" in site("void", "m-1", "--why", "x").out
    explained = site("explain", "m-1").out
    assert "Voided by event" in explained
    assert site("audit").code == 0


def test_what_cannot_be_taken_back_is_said_with_exit_code_1(site: Site) -> None:
    site.rate(match("m-1"), match("m-2", mode="boosted"), tournament("t-1"), match("m-3", winner=None))
    site.run(lambda bench: bench.send(match("m-4")))
    for match_id, outcome, words in (
        ("m-0", "unknown", "is not known: not in the inbox, the ledger or the dead letters"),
        ("m-2", "not-rated", "was not rated: it changed no rating by the rules; there is nothing to void"),
        ("m-3", "not-rated", "was not rated: it is the dead letter "),
        ("m-4", "not-rated", "was not rated: it waits in the inbox as "),
        ("t-1", "not-rated", "was not rated: it is a tournament, not a match"),
    ):
        result = site("void", match_id, "--why", "x")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"match-ratings: {match_id} on ladder {site.ladder} {words}")
        result = site("void", match_id, "--why", "x", "--json")
        assert (result.code, result.json["outcome"]) == (1, outcome)
    # Nothing was sent for any of them
    assert site.run(lambda bench: bench.redis.xlen(bench.keys.inbox)) == 1


def test_without_a_worker_it_waits_and_a_worker_does_it_later(site: Site) -> None:
    site.rate(match("m-1"))
    site.run(lambda bench: bench.redis.xgroup_destroy(bench.keys.inbox, "raters"))
    result = site("void", "m-1", "--why", "x", "--timeout", "0")
    assert result.code == 1
    assert "is not voided yet: no worker is running; the message" in result.err
    assert site("void", "m-1", "--why", "x", "--timeout", "0", "--json").json["outcome"] == "waiting"
    site.rate()
    assert site.run(lambda bench: bench.counts()) == {"rated": 1, "void": 1, "duplicate": 1}
    assert site("void", "m-1", "--why", "x").code == 0


def test_a_dry_run_changes_nothing(site: Site) -> None:
    site.rate(match("m-1"), match("m-2", ("cyd", "ada")))
    result = site("void", "m-1", "--why", "x", "--dry-run")
    assert result.code == 0
    assert "would be voided" in result.out and "+16  bob" in result.out
    result = site("void", "--player", "ada", "--since", "1d", "--why", "x", "--dry-run")
    assert result.code == 0
    assert "2 matches against 2 opponents" in result.out
    found = site("void", "--player", "ada", "--since", "1d", "--why", "x", "--dry-run", "--json").json
    assert (found["dry_run"], found["outcomes"]) == (True, {"rated": 2})
    assert site.run(lambda bench: bench.redis.xlen(bench.keys.inbox)) == 0


def test_the_matches_of_a_cheater_are_taken_back_newest_first(site: Site) -> None:
    now = site.run(_now)
    played = [
        match(f"m-{n}", ("eve", "bob" if n % 3 else "cyd"), finished_at=now - 40 * DAY + n * DAY)
        for n in range(8)
    ]
    others = [
        match("o-1", ("bob", "cyd")),
        tournament("t-1", ("eve", "bob")),
        match("m-x", ("eve", "bob"), mode="boosted"),
    ]
    site.rate(*played, *others, match("m-8", ("ann", "eve")))
    # Without their receipts, as after the horizon
    site.run(lambda bench: bench.redis.delete(*(bench.keys.receipt(f"m-{n}") for n in range(8))))
    site.rate({"type": "match-voided", "match_id": "m-8", "players": ["ann", "eve"], "why": "x"})
    since = site.run(lambda bench: _iso(now - 38 * DAY))
    with site.working():
        result = site("void", "--player", "eve", "--since", since, "--why", "a bot", answer="y")
        again = site("void", "--player", "eve", "--since", since, "--why", "a bot", "--yes", "--json")
    assert result.code == 0, result.err
    assert site.question == f"Void 6 matches of eve on ladder {site.ladder}?"
    events = site.run(lambda bench: bench.events())
    voids = [event for event in events if event.cause == "void"]
    assert [event.match_id for event in voids] == ["m-8", "m-7", "m-6", "m-5", "m-4", "m-3", "m-2"]
    back = {
        name: sum(part.change for event in voids[1:] for part in event.players if part.player == name)
        for name in ("bob", "cyd")
    }
    lines = result.out.splitlines()
    assert [line.split() for line in lines[-2:]] == [
        [f"+{back['bob']}", "4", "bob"],
        [f"+{back['cyd']}", "2", "cyd"],
    ]
    assert "6 matches voided; 1" in lines[-4]
    # Run again it has nothing to do
    assert (again.code, again.json["outcomes"], again.json["matches"]) == (0, {}, [])
    assert site("audit", "--json").json["by_kind"] == {"receipt": 8}  # those that were deleted above


async def _now(bench: Bench) -> int:
    return bench.now


async def _iso(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def test_nobody_is_asked_where_nobody_can_answer(site: Site) -> None:
    site.rate(match("m-1"))
    result = site("void", "--player", "ada", "--since", "1d", "--why", "x")
    assert (result.code, result.err) == (
        2,
        "match-ratings: --yes: it is required where nobody can be asked\n",
    )
    assert site("void", "--player", "ada", "--since", "1d", "--why", "x", answer="n").code == 130
    assert site.run(lambda bench: bench.redis.xlen(bench.keys.inbox)) == 0


def test_games_of_closed_periods_are_told_apart(make_site: Callable[..., Site]) -> None:
    site = make_site(GlickoPeriods(period_days=1), system="glicko-periods", period_days=1)
    now = site.run(_now)
    site.rate(match("m-1", finished_at=now - 5 * DAY), match("m-2"))
    refused = site("void", "m-1", "--why", "x")
    assert refused.code == 1 and "they were rated together" in refused.err
    with site.working():
        result = site("void", "--player", "ada", "--since", "10d", "--why", "x", "--yes", "--json")
    assert (result.code, result.json["outcomes"]) == (1, {"refused": 1, "voided": 1})
    assert "m-1 cannot be voided" in result.err
    assert site("audit").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("m-1",), "missing option '--why'"),
        (("--why", "x"), "MATCH: give one match, or --player and --since for several"),
        (("m-1", "--player", "ada", "--why", "x"), "MATCH: give one match"),
        (("--player", "ada", "--why", "x"), "--since: it is required with --player"),
        (("m-1", "--since", "1d", "--why", "x"), "--since: it goes with --player"),
        (
            ("--player", "ada", "--since", "yesterday", "--why", "x"),
            '--since: "yesterday" is not allowed; use a time',
        ),
        (("--player", "ada", "--since", "2026-13-01", "--why", "x"), '--since: "2026-13-01" is not allowed'),
        (("m-1", "--why", " "), '--why: " " is not allowed'),
        (("m-1", "--why", "x" * 501), "--why: "),
        (("m-1", "--why", "x", "--by", "\n"), '--by: "\\n" is not allowed'),
        (("m\n1", "--why", "x"), 'MATCH: "m\\n1" is not allowed'),
        (("m-1", "--why", "x", "--timeout", "-1"), '--timeout: "-1" is not allowed'),
    ],
)
def test_wrong_input_is_one_line_with_exit_code_2(site: Site, arguments: tuple[str, ...], words: str) -> None:
    site.rate(match("m-1"))
    result = site("void", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert words in result.err


def test_a_player_who_is_not_known_is_not_taken_for_one_without_games(site: Site) -> None:
    site.rate(match("m-1"))
    result = site("void", "--player", "ava", "--since", "1d", "--why", "x", "--yes")
    assert (result.code, result.err) == (
        1,
        f"match-ratings: player ava is not known on ladder {site.ladder}\n",
    )
    result = site(
        "void", "--player", "ada", "--since", "2020-01-01", "--until", "2021-01-01", "--why", "x", "--yes"
    )
    assert (result.code, result.out) == (
        0,
        f"ada on ladder {site.ladder}: no match in this time that can be voided\n",
    )


def test_audit_tells_each_difference_in_a_line_and_repairs(site: Site) -> None:
    site.rate(match("m-1"), match("m-2"), match("m-3", ("ada", "cyd")))
    assert site("audit").out == (
        f"ladder {site.ladder}: 3 events, 3 players; verified from the start\nno differences\n"
    )

    async def tamper(bench: Bench) -> None:
        await bench.redis.hset(bench.keys.player("ada"), "rating", 2000)
        await bench.redis.zadd(bench.keys.leaderboard, {"bob": 3000})
        await bench.redis.zrem(bench.keys.games("cyd"), "m-3")

    site.run(tamper)
    result = site("audit")
    assert result.code == 1
    assert result.out.splitlines() == [
        "ada: rating is 2000; by the ledger it is 1548",
        "bob: the score on the leaderboard is 3000; by the ledger it is 1468",
        "cyd: the window has 1 game missing or at another time (m-3)",
        f"ladder {site.ladder}: 3 events, 3 players; verified from the start",
        "differences: 3 (rating 1, leaderboard 1, window 1)",
    ]
    result = site("audit", "--repair")
    assert result.code == 1
    assert result.out.endswith("repaired: 2, of 2 players; ratings are never changed\n")
    found = site("audit", "--json")
    assert (found.code, found.json["differences"], found.json["by_kind"]) == (1, 1, {"rating": 1})
    assert found.json["first"][0]["player"] == "ada"


def test_audit_says_from_when_on_it_can_vouch(site: Site) -> None:
    site.rate(match("m-0", ("eve", "fay")), match("m-1"), match("m-2"), match("m-3", ("ada", "cyd")))
    site.run(lambda bench: bench.redis.xtrim(bench.keys.outbox, maxlen=2, approximate=False))
    result = site("audit")
    assert result.code == 0
    assert re.search(
        r"2 events, 3 players; verified from \S+ \S+ on: 2 of them only from their first change "
        r"that is kept, 2 more have no event that is kept\nno differences\n$",
        result.out,
    )


def test_audit_shows_nothing_that_acts_on_a_terminal(site: Site) -> None:
    site.rate(match("m-1", ("\u202e[red]", "bob")))
    site.run(lambda bench: bench.redis.delete(bench.keys.leaderboard))
    result = site("audit")
    assert "\u202e" not in result.out and "\\u202e[red]: the score on the leaderboard is none" in result.out


@pytest.mark.slow
def test_under_workers_that_are_killed_all_is_taken_back_once(
    server: Endpoint, ladder: str, tmp_path: Path
) -> None:
    config = config_file(tmp_path / "ladders.toml", ladder)

    def bench_run(act: Callable[[Bench], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            async with Redis.from_url(server.url) as redis:
                return await act(Bench(redis, ladder))

        return asyncio.run(main())

    def at_least(outcome: str, number: int) -> Callable[[], bool]:
        return lambda: bench_run(lambda bench: bench.counts()).get(outcome, 0) >= number

    fast = {"RATINGS_IDLE_SECONDS": "1", "RATINGS_BATCH": "16"}
    games = [match(f"m-{n}", ("eve", f"p{n % 7}")) for n in range(300)]
    with (
        Worker.running(server.url, config, tmp_path / "one.log", **fast) as one,
        Worker.running(server.url, config, tmp_path / "two.log", **fast),
    ):
        bench_run(lambda bench: bench.send(*games))
        until(at_least("rated", 300))
        others = [match(f"o-{n}", (f"p{n % 7}", f"q{n % 5}")) for n in range(300)]
        bench_run(lambda bench: bench.send(*others[:150]))
        arguments = ("void", "--player", "eve", "--since", "1d", "--why", "x", "--yes", "--json")
        import threading

        threading.Timer(0.6, one.kill).start()
        done = command(*arguments, url=server.url, config=config)
        bench_run(lambda bench: bench.send(*others[150:]))
        until(at_least("rated", 600))
        until(at_least("void", 300))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcomes"] == {"voided": 300}
    assert bench_run(lambda bench: bench.player("eve"))["rating"] == "1500"
    assert sum(item["change"] for item in found["opponents"]) == -found["change"]
    assert command("audit", url=server.url, config=config).returncode == 0
