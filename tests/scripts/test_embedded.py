"""The helper that runs a real server: scripts/embedded.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from fakeredis import FakeAsyncRedis
from redis import ConnectionError as Unreachable
from redis import TimeoutError as Unanswered
from redis.asyncio import Redis

import embedded
from embedded import PORTS, Endpoint, Server, ServerError
from tests.support.waiting import until

pytestmark = pytest.mark.server


def test_a_started_server_answers_and_close_leaves_nothing_behind() -> None:
    server = Server()
    with server, server.client() as client:
        pid = server.pid
        assert pid is not None
        assert client.set("key", "value")
        assert client.config_get("save") == {"save": ""}
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert server.port in PORTS
    assert not server.running
    assert not psutil.pid_exists(pid)
    assert not server.directory.exists()


def test_it_starts_within_a_second() -> None:
    took = []
    for _ in range(5):  # the machine may be busy with other things
        begun = time.monotonic()
        with Server():
            took.append(time.monotonic() - begun)
        if took[-1] < 1:
            return
    raise AssertionError(took)


def test_starting_twice_is_starting_once() -> None:
    with Server() as server:
        pid = server.pid
        assert server.start().pid == pid


def test_two_servers_do_not_share_anything() -> None:
    with Server() as one, Server() as other, one.client() as at_one, other.client() as at_other:
        at_one.set("key", "value")
        assert at_other.get("key") is None


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_keeps_port_and_data(own_server: Server, kill: bool) -> None:
    url, pid = own_server.url, own_server.pid
    with own_server.client() as client:
        client.set("key", "value")
        own_server.restart(kill=kill)
    with own_server.client() as client:
        assert client.get("key") == b"value"
    assert own_server.url == url
    assert own_server.pid != pid


def test_without_appendonly_a_restart_forgets() -> None:
    with Server() as server:
        with server.client() as client:
            client.set("key", "value")
        server.restart()
        with server.client() as client:
            assert client.get("key") is None


def test_a_killed_server_is_gone_at_once(own_server: Server) -> None:
    own_server.kill()
    assert not own_server.running
    with own_server.client() as client, pytest.raises(Unreachable):
        client.ping()


def test_a_paused_server_takes_connections_and_does_not_answer(own_server: Server) -> None:
    own_server.pause()
    assert own_server.running
    with own_server.client(socket_timeout=0.1) as client, pytest.raises(Unanswered):
        client.ping()
    own_server.resume()
    with own_server.client() as client:
        assert client.ping()


def test_a_given_directory_stays(tmp_path: Path) -> None:
    with Server(tmp_path, appendonly=True) as server, server.client() as client:
        client.set("key", "value")
    with Server(tmp_path, appendonly=True) as server, server.client() as client:
        assert client.get("key") == b"value"


def test_a_taken_port_that_was_asked_for_is_an_error(own_server: Server) -> None:
    with pytest.raises(ServerError, match="Address already in use"):
        Server(port=own_server.port).start()
    assert own_server.running


def test_a_taken_port_that_was_not_asked_for_is_changed(own_server: Server) -> None:
    other = Server()
    other.port = own_server.port
    with other:
        assert other.port != own_server.port


def test_a_server_that_does_not_start_says_why() -> None:
    server = Server(options=["--no-such-option", "1"])
    with pytest.raises(ServerError, match="no-such-option"):
        server.start()
    assert not server.running
    server.close()


def test_without_any_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.metadata.files", lambda name: [])
    with pytest.raises(ServerError, match="embedded"):
        embedded.find_binary()


def test_a_server_on_the_path_goes_before_the_embedded_one_unless_it_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "redis-server"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=00000000:0 bits=64'\n")
    program.chmod(0o755)
    assert embedded.find_binary() == program
    program.write_text("#!/bin/sh\necho 'Redis server v=6.2.6 sha=00000000:0 bits=64'\n")
    assert embedded.find_binary() != program


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_server_dies_with_its_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    script = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from embedded import Server
print(Server(pathlib.Path(sys.argv[2])).start().pid, flush=True)
time.sleep(60)
"""
    here = str(Path(embedded.__file__).parent)
    command = [sys.executable, "-c", script, here, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        assert server.is_running()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until(lambda: _ended(server))


def _ended(process: psutil.Process) -> bool:
    # In a container, nothing may ever collect the exit status of an orphan: then it stays a zombie.
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_the_shared_server_is_marked_and_isolated(
    request: pytest.FixtureRequest, redis: Redis, server: Endpoint, ladder: str
) -> None:
    assert request.node.get_closest_marker("server")
    key = f"ratings:{{{ladder}}}:leaderboard"
    assert await redis.zadd(key, {"anna": 1500}) == 1
    with server.client() as client:
        assert client.zscore(key, "anna") == 1500


async def test_the_fake_server_runs_lua(fake: FakeAsyncRedis) -> None:
    increment = fake.register_script("return redis.call('INCR', KEYS[1])")
    assert await increment(keys=["n"]) == 1
    assert await fake.get("n") == b"1"
