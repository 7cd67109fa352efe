"""Rating systems of other distributions: found by their entry point, and harmless when they are broken.

Each test lays a distribution (a module and its .dist-info) into a directory of its own on PYTHONPATH, and
runs the command line in a new process, as a user would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded import Endpoint
from match_ratings_worker.rating import Backgammon, BrokenSystem
from match_ratings_worker.rating.system_registry import Systems
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.processes import Worker, config_file, environment
from tests.support.waiting import until

#: The example of the README.
EXAMPLE = '''
from match_ratings_worker.rating import Outcome, RatingSystem, Side, State, Step

class Points(RatingSystem):
    """So many points for a win."""
    name, integer_ratings = "points", True
    win: int = 3
    def initial(self):
        return State(0)
    def rate(self, first, second, game):
        gains = [self.win if score == 1 else 0 for score in game.scores]
        one, two = (Side(gain, state.rating + gain, 0.5) for gain, state in zip(gains, (first, second)))
        return Outcome("1", (one, two))
    def explain(self, event):
        return [Step("change", f"{self.win} a win", f"{own.change:+}", own.player) for own in event.players]
'''

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Site:
    """Directories that are searched like site-packages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {"PYTHONPATH": str(directory)}

    def install(
        self, code: str, *points: str, package: str = "points-plugin", module: str = "points_plugin"
    ) -> None:
        """Lays down a distribution with one module; entry points are written as `name = module:attribute`."""
        (self.directory / f"{module}.py").write_text(code)
        info = self.directory / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "\n".join(points or ("points = points_plugin:Points",))
        (info / "entry_points.txt").write_text(f"[match_ratings.systems]\n{lines}\n")

    def run(self, *arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **self.environment}
        env |= {"RATINGS_CONFIG": str(config)} if config else {}
        code = "from match_ratings_worker.cli.app import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture
def plugins(tmp_path: Path) -> Site:
    directory = tmp_path / "site-packages"
    directory.mkdir()
    return Site(directory)


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.strip().splitlines()) <= 15


def test_a_system_of_another_distribution_is_listed_and_previewed(plugins: Site) -> None:
    plugins.install(EXAMPLE)
    listed = plugins.run("systems")
    assert listed.stdout.splitlines()[-1].split()[:2] == ["points", "game"]
    shown = plugins.run(
        "preview", "--system", "points", "--rating", "0", "--opponent", "6", "--set", "win=2", "--json"
    )
    assert shown.returncode == 0, shown.stderr
    win, loss = [json.loads(line) for line in shown.stdout.splitlines()]
    assert (win["first"]["change"], loss["second"]["after"]) == (2, 8)


def test_it_rates_a_ladder(plugins: Site, server: Endpoint, ladder: str, tmp_path: Path) -> None:
    # Given a ladder with the plug-in's system and a setting of it
    plugins.install(EXAMPLE)
    config = config_file(tmp_path / "ladders.toml", ladder, system="points", win=5)
    keys = Keys(ladder)
    with (
        server.client() as redis,
        Worker.running(server.url, config, tmp_path / "log", **plugins.environment),
    ):
        # When a match comes in
        match = {"match_id": "m", "ladder": ladder, "players": ["ada", "bob"], "winner": "bob"}
        match["finished_at"] = redis.time()[0] * 1000
        redis.xadd(keys.inbox, {"message": json.dumps(match)})
        until(lambda: redis.xlen(keys.outbox))
        # Then it is rated by it, and every step can be explained.
        assert redis.zscore(keys.leaderboard, "bob") == 5
        env = environment(server.url, config, **plugins.environment)
        explained = subprocess.run(
            [sys.executable, "-c", "from match_ratings_worker.cli.app import main; main()", "explain", "m"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "5 a win" in explained.stdout and "the same figures" in explained.stdout


def test_asking_for_this_packages_own_systems_looks_for_no_others(plugins: Site) -> None:
    plugins.install("raise SystemExit('imported')")
    assert (
        plugins.run("preview", "--system", "fide", "--rating", "1500", "--opponent", "1500").returncode == 0
    )
    code = (
        "import sys, importlib.metadata; from match_ratings_worker.rating import SYSTEMS; "
        "importlib.metadata.entry_points = None; "
        "SYSTEMS['fibs']; 'glicko' in SYSTEMS; sys.exit('points_plugin' in sys.modules)"
    )
    env = {**os.environ, **plugins.environment}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


BROKEN: list[tuple[str, str, str]] = [
    ("import nosuchmodule", "points_plugin:Points", "cannot be loaded: ModuleNotFoundError: No module named"),
    ("1 / 0", "points_plugin:Points", "cannot be loaded: ZeroDivisionError: division by zero"),
    ("def x(:", "points_plugin:Points", "cannot be loaded: SyntaxError: "),
    ("x = 1", "points_plugin:Points", "cannot be loaded: AttributeError: "),
    ("", "nosuch_plugin:Points", "cannot be loaded: ModuleNotFoundError: No module named 'nosuch_plugin'"),
    (
        "Points = 3",
        "points_plugin:Points",
        "it is not a class that inherits from match_ratings_worker.rating.RatingSystem",
    ),
    (EXAMPLE.replace('"points"', '"pts"'), "points_plugin:Points", "the class calls itself 'pts'"),
    (EXAMPLE.replace("def explain", "def describe"), "points_plugin:Points", "it lacks explain"),
    (
        EXAMPLE.replace("win: int = 3", "win: int"),
        "points_plugin:Points",
        "with its default settings it raises",
    ),
    (
        EXAMPLE.replace("win: int = 3", 'win: int = 3\n    state_fields = ("rating",)'),
        "points_plugin:Points",
        "state_fields: ('rating',) is not allowed; names differ from each other and from games, last_game",
    ),
    (
        EXAMPLE.replace("win: int = 3", 'win: int = 3\n    state_fields = ("streak",)'),
        "points_plugin:Points",
        "initial() gives 0 values for the 1 names in state_fields",
    ),
]


@pytest.mark.parametrize(("code", "point", "words"), BROKEN, ids=[words[:40] for _, _, words in BROKEN])
def test_a_broken_one_is_one_clear_sentence(
    plugins: Site, monkeypatch: pytest.MonkeyPatch, code: str, point: str, words: str
) -> None:
    plugins.install(code, f"points = {point}")
    monkeypatch.syspath_prepend(str(plugins.directory))
    monkeypatch.delitem(sys.modules, "points_plugin", raising=False)
    with pytest.raises(BrokenSystem) as caught:
        Systems(Backgammon)["points"]
    text = str(caught.value)
    assert text.startswith("the rating system points, which the package points-plugin brings, ")
    assert words in text and "\n" not in text


def test_a_ladder_with_a_broken_one_stops_the_command_with_that_sentence(
    plugins: Site, tmp_path: Path
) -> None:
    plugins.install("1 / 0")
    config = config_file(tmp_path / "ladders.toml", "club", system="points")
    found = plugins.run("worker", config=config)
    assert found.returncode == 2 and not found.stdout
    about = (
        "match-ratings: ladders.club.system: the rating system points, which the package points-plugin brings"
    )
    assert found.stderr == f"{about}, cannot be loaded: ZeroDivisionError: division by zero\n"


def test_a_broken_one_harms_no_ladder_that_does_not_use_it(plugins: Site, tmp_path: Path) -> None:
    plugins.install("1 / 0")
    config = config_file(tmp_path / "ladders.toml", "club", system="glicko")
    found = plugins.run("preview", "--rating", "1500", "--opponent", "1500", config=config)
    assert found.returncode == 0 and not found.stderr
    listed = plugins.run("systems")
    assert listed.returncode == 0 and "cannot be loaded: ZeroDivisionError" in listed.stdout
    one = plugins.run("systems", "points")
    assert one.returncode == 2 and "ZeroDivisionError" in one.stderr and one.stderr.count("\n") == 1


def test_two_of_one_name_are_refused_and_none_takes_the_place_of_our_own(plugins: Site) -> None:
    plugins.install(EXAMPLE)
    plugins.install(
        EXAMPLE,
        "points = other_plugin:Points",
        "fide = other_plugin:Points",
        package="other-plugin",
        module="other_plugin",
    )
    both = plugins.run("preview", "--system", "points", "--rating", "0", "--opponent", "0")
    assert both.returncode == 2
    assert "is brought by more than one package: other-plugin, points-plugin" in both.stderr
    ours = plugins.run("systems", "fide")
    assert ours.returncode == 0 and "expectation" in ours.stdout


def test_an_unknown_name_tells_the_known_ones(plugins: Site, tmp_path: Path) -> None:
    plugins.install(EXAMPLE)
    config = config_file(tmp_path / "ladders.toml", "club", system="elo")
    found: Any = plugins.run("ladder", "show", config=config)
    assert found.returncode == 2 and found.stderr.rstrip().endswith("glicko2, points")
