"""The wheel in fresh environments, in the company of other people's packages and files.

These install packages with pip, so they need a package index; without one they are skipped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from embedded import Endpoint

pytestmark = pytest.mark.slow

#: What pip says when no index can be reached.
OFFLINE = ("NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "name resolution")

#: Files of a user's that are named like packages people have; each leaves a mark when it is run.
THEIRS = ("worker.py", "contracts.py", "contracts/__init__.py", "worker/__init__.py", "worker/__main__.py")
MARK = """
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text(__file__)
"""


class Environment:
    """A virtual environment of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True, timeout=120)

    def install(self, *packages: str) -> None:
        """Installs packages, or skips the test where no index can be reached."""
        pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command = [*pip, "--python", str(self.bin / "python"), "install", "--quiet", *packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode and any(sign in done.stderr for sign in OFFLINE):
            pytest.skip("no package index can be reached, and this test installs from one")
        assert done.returncode == 0, done.stderr

    def run(
        self, *command: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of this environment to its end."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd or self.path,
            env=clean_environment(**variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def clean_environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RATINGS_", "PYTHON", "COV"))
    }
    return {**kept, **variables}


@pytest.fixture(scope="module")
def light(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The client alone, beside the newest redis-py and another distribution with a `contracts` package."""
    environment = Environment(tmp_path_factory.mktemp("light") / "venv")
    environment.install(str(built_wheel), "redis>=8", "PyContracts")
    return environment


@pytest.fixture(scope="module")
def full(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A worker's environment, in which PyContracts is too."""
    environment = Environment(tmp_path_factory.mktemp("full") / "venv")
    environment.install(f"{built_wheel}[worker]", "PyContracts")
    return environment


CLIENT = """
import asyncio, sys
from datetime import UTC, datetime
from match_ratings import MatchFinished, enqueue, publish, rating_updates
from redis.asyncio import Redis

async def main():
    async with Redis.from_url(sys.argv[1], protocol=int(sys.argv[3])) as redis:
        ladder = sys.argv[2]
        match = MatchFinished(match_id="m-1", ladder=ladder, players=("ada", "bob"), winner="ada",
                              finished_at=datetime.now(UTC))
        print(await publish(redis, match))
        await redis.xadd(f"ratings:{{{ladder}}}:rating-updated", {"message": sys.argv[4]})
        async for event in rating_updates(redis, ladder, start="0"):
            print(event.players[0].player, event.players[0].after)
            return

asyncio.run(main())
"""

EVENT = (
    '{"version":1,"cause":"prize","tournament_id":"t","ladder":"LADDER","system":"backgammon","rules":"1.3.1",'
    '"finished_at":1700000000000,"rated_at":1700000000000,"late":false,'
    '"players":[{"player":"ada","before":1500,"change":50,"after":1550,"sequence":1}]}'
)


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_the_client_works_with_the_newest_redis_py_and_beside_another_contracts(
    light: Environment, server: Endpoint, ladder: str, protocol: str
) -> None:
    # When a server without the worker's packages publishes a match and reads an event
    event = EVENT.replace("LADDER", ladder)
    done = light.run("python", "-c", CLIENT, server.url, ladder, protocol, event)
    # Then both work
    assert done.returncode == 0, done.stderr
    entry_id, shown = done.stdout.splitlines()
    assert shown == "ada 1550"
    with server.client() as client:
        assert client.xrange(f"ratings:{{{ladder}}}:match-finished")[0][0] == entry_id.encode()
    # And nothing of the worker came along
    program = "import redis, importlib.util as u; print(redis.__version__, u.find_spec('contracts').origin)"
    listed = light.run("python", "-c", program)
    version, origin = listed.stdout.split()
    assert int(version.split(".")[0]) >= 8 and origin.endswith("contracts/__init__.py")
    for heavy in ("arq", "typer", "structlog", "rich", "uvloop", "orjson", "prometheus_client"):
        assert light.run("python", "-c", f"import {heavy}").returncode != 0


def test_the_command_without_the_worker_says_what_to_install(light: Environment) -> None:
    for arguments in ((), ("worker",), ("--help",), ("status", "--json")):
        done = light.run("match-ratings", *arguments)
        assert done.returncode == 3 and done.stdout == ""
        assert done.stderr.splitlines() == [
            "match-ratings: this command needs the worker: pip install 'match-ratings[worker]'"
        ]


def test_the_oldest_redis_py_of_the_client_works(built_wheel: Path, server: Endpoint, ladder: str) -> None:
    # The suite's own environment has redis-py 5, the oldest line that is allowed.
    event = EVENT.replace("LADDER", ladder)
    command = [sys.executable, "-c", CLIENT, server.url, ladder, "2", event]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    version = subprocess.run(
        [sys.executable, "-c", "import redis; print(redis.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith("5.")


class Folder:
    """A user's project, with files of the names that ours once had."""

    def __init__(self, path: Path, ladder: str, url: str, files: tuple[str, ...]) -> None:
        self.path = path
        self.mark = path.parent / "mark"
        for name in files:
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(MARK)
        config = path / "ladders.toml"
        config.write_text(f"[ladders.{ladder}]\n")
        self.variables = {
            "RATINGS_REDIS_URL": url,
            "RATINGS_CONFIG": str(config),
            "MARK": str(self.mark),
            "PYTHONPATH": str(path),
        }

    @contextlib.contextmanager
    def running(self, environment: Environment, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """A program of the environment that runs in this folder."""
        process = subprocess.Popen(
            [str(environment.bin / command[0]), *command[1:]],
            cwd=self.path,
            env=clean_environment(**self.variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.mark.parametrize(
    "command",
    [
        ("match-ratings", "worker"),
        ("match-ratings", "worker", "--processes", "2"),
        ("arq", "match_ratings_worker.settings.WorkerSettings"),
        ("python", "-m", "match_ratings_worker", "worker", "--processes", "2"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("files", [THEIRS[:2], THEIRS[2:]], ids=["modules", "packages"])
def test_nothing_of_the_users_folder_is_executed(
    full: Environment,
    server: Endpoint,
    ladder: str,
    tmp_path: Path,
    command: tuple[str, ...],
    files: tuple[str, ...],
) -> None:
    # Given a folder with the user's own modules, which is on PYTHONPATH too
    path = tmp_path / "project"
    path.mkdir()
    folder = Folder(path, ladder, server.url, files)
    with server.client() as client, folder.running(full, *command) as process:
        # When a worker is started there, and a match comes
        send(client, ladder)
        wait_for_event(client, ladder, process)
    # Then it is rated, and nothing of theirs was run
    assert not folder.mark.exists(), folder.mark.read_text()


def send(client: Redis, ladder: str) -> None:
    match = (
        f'{{"match_id":"m-1","ladder":"{ladder}","players":["ada","bob"],"winner":"ada",'
        f'"finished_at":{int(time.time() * 1000)}}}'
    )
    client.xadd(f"ratings:{{{ladder}}}:match-finished", {"message": match})


def wait_for_event(client: Redis, ladder: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    outbox = f"ratings:{{{ladder}}}:rating-updated"
    last = "0"
    while time.monotonic() < end:
        assert process.poll() is None, f"it ended with {process.returncode}"
        if client.xread({outbox: last}, count=1, block=500):
            return
    raise AssertionError("the match was not rated")


def test_their_modules_are_theirs(full: Environment, tmp_path: Path) -> None:
    # Given a project whose own modules have the names that ours once had
    (tmp_path / "worker.py").write_text("name = 'their worker'\n")
    (tmp_path / "contracts.py").write_text("name = 'their contracts'\n")
    program = textwrap.dedent("""
        import match_ratings, match_ratings_worker.rating, worker, contracts
        print(worker.name, contracts.name, match_ratings.MatchFinished.__name__)
    """)
    (tmp_path / "app.py").write_text(program)
    # When its program imports ours too, then each gets its own
    done = full.run("python", "app.py", cwd=tmp_path)
    assert done.stdout == "their worker their contracts MatchFinished\n", done.stderr
