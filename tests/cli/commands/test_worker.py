"""The worker command: it rates, refuses a server that is not fit, and ends without a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded import Server
from tests.support.waiting import PATIENCE, until

Spawn = Callable[..., subprocess.Popen[bytes]]


@contextlib.contextmanager
def running(spawn: Spawn, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that has begun to rate."""
    process = spawn("worker", env={**os.environ, "RATINGS_REDIS_URL": url})
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if json.loads(line)["event"] == "rating":
                break
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], number: int) -> str:
    """What a worker says after this signal, in the end with code 0."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert not out and b"Traceback" not in err
    return err.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_rates_and_ends_with_0(site: Any, spawn: Spawn, number: int) -> None:
    with running(spawn, site.url) as process:
        site.send(site.match("m-1"))
        until(lambda: site.redis.zcard(site.keys.leaderboard) == 2)
        ended(process, number)
    assert site.redis.xlen(site.keys.inbox) == 0
    assert site.redis.zscore(site.keys.leaderboard, "ada") == 1516


def test_it_ends_with_0_when_redis_is_away(own_server: Server, settings: Any, spawn: Spawn) -> None:
    with running(spawn, own_server.url) as process:
        own_server.kill()
        assert process.stderr is not None
        assert any(json.loads(line)["event"].startswith("Redis ") for line in process.stderr)
        ended(process, signal.SIGTERM)


def test_it_does_not_start_on_a_replica(own_server: Server, settings: Any, call: Any) -> None:
    with own_server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    settings.setenv("RATINGS_REDIS_URL", own_server.url)
    result = call("worker")
    assert result.code == 3
    assert result.err.startswith("match-ratings: this is a replica") and result.err.count("\n") == 1


@contextlib.contextmanager
def several(url: str, folder: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The installed command with two worker processes, started in a folder, and its log."""
    log = folder / "log"
    command = [str(Path(sys.executable).with_name("match-ratings")), "worker", "--processes", "2"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stderr=file, env={**os.environ, "RATINGS_REDIS_URL": url, **variables}
        )
    workers: list[psutil.Process] = []
    try:
        until(lambda: len(rating(log)) == 2, 60)
        workers = psutil.Process(process.pid).children()
        yield process, log
    finally:
        for one in [psutil.Process(process.pid), *workers] if process.poll() is None else workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def lines(log: Path) -> list[dict[str, Any]]:
    """The log lines so far; all of them are JSON."""
    return [json.loads(line) for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def rating(log: Path) -> set[int]:
    """The processes that say that they rate."""
    return {line["pid"] for line in lines(log) if line["event"] == "rating"}


def gone(pids: set[int]) -> bool:
    """Whether all these processes have ended."""
    return not any(psutil.pid_exists(pid) for pid in pids)


def test_several_processes_and_their_supervisor_log_alike(
    own_server: Server, settings: Any, tmp_path: Path
) -> None:
    with several(own_server.url, tmp_path) as (process, log):
        # Given two workers; when one of them is killed
        workers = rating(log)
        victim = min(workers)
        os.kill(victim, signal.SIGKILL)
        # Then another rates, and the supervisor says so in a line like those of the workers
        until(lambda: len(rating(log)) == 3, 60)
        said = next(line for line in lines(log) if line["event"] == "worker process ended, restarting")
        assert said["process"] == victim and said["ended_with"] == "signal SIGKILL"
        assert said["pid"] == process.pid and said["level"] == "warning"
        # And when the terminal is closed, all of them stop in good order
        process.send_signal(signal.SIGHUP)
        assert process.wait(15) == 0 and gone(rating(log))
        stopped = {line["pid"] for line in lines(log) if line["event"] == "stopped"}
        assert stopped == rating(log) - {victim}
        assert {line["pid"] for line in lines(log)} == {process.pid, *rating(log)}


def test_a_killed_supervisor_takes_its_workers_with_it(
    own_server: Server, settings: Any, tmp_path: Path
) -> None:
    with several(own_server.url, tmp_path) as (process, log):
        workers = rating(log)
        process.kill()
        process.wait()
        until(lambda: gone(workers))
        # They stopped in good order: no other worker has to take over their messages
        assert {line["pid"] for line in lines(log) if line["event"] == "stopped"} == workers


@pytest.mark.slow
def test_nothing_in_the_working_directory_is_run(own_server: Server, settings: Any, tmp_path: Path) -> None:
    # Given a folder with modules named like ours, like the standard library's and like our dependencies
    mark = tmp_path / "mark"
    source = f"open({str(mark)!r}, 'a').write(__file__ + '\\n')\n"
    for name in ("worker", "contracts", "match_ratings", "sitecustomize", "usercustomize", "json", "arq"):
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "match_ratings_worker").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "match_ratings_worker" / f"{name}.py").write_text(source)
    # When several workers are started there, then they rate, and nothing of the folder is run
    with several(own_server.url, tmp_path) as (process, _):
        process.terminate()
        assert process.wait(15) == 0
    assert not mark.exists()


@pytest.mark.slow
def test_workers_that_keep_ending_are_given_up(own_server: Server, settings: Any, tmp_path: Path) -> None:
    # Given an installation whose worker processes cannot start
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif '--supervised' in sys.orig_argv: os._exit(1)\n"
    )
    command = [str(Path(sys.executable).with_name("match-ratings")), "worker", "--processes", "2"]
    env = {**os.environ, "RATINGS_REDIS_URL": own_server.url, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    # Then the command ends after some tries, with one sentence
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "match-ratings: the workers keep ending soon after their start, 5 times in a row, "
        "last with exit code 1; their log has the reason"
    )
