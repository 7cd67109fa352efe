"""Several real servers together: a cluster of three nodes, and a primary with replicas and Sentinels."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import redis as sync_redis

from embedded import Server, find_binary, free_port
from tests.support.waiting import until

SLOTS = 16_384


def complete(client: sync_redis.Redis) -> bool:
    info: Any = client.execute_command("CLUSTER INFO")
    return bool(info["cluster_state"] == "ok")


@contextlib.contextmanager
def cluster(nodes: int = 3) -> Iterator[list[Server]]:
    """A cluster of primaries on loopback, the slots spread evenly."""
    with contextlib.ExitStack() as stack:
        servers = []
        for _ in range(nodes):
            options = [
                *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"),
                *("--cluster-port", str(free_port()), "--cluster-node-timeout", "2000"),
            ]
            servers.append(stack.enter_context(Server(appendonly=True, options=options)))
        for index, server in enumerate(servers):
            first, last = index * SLOTS // nodes, (index + 1) * SLOTS // nodes - 1
            with server.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
                for other in servers[:index]:
                    settings: Any = other.client(decode_responses=True).config_get("cluster-port")
                    bus = settings["cluster-port"]
                    client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
        for server in servers:
            client = server.client(decode_responses=True)
            until(partial(complete, client))
        yield servers


class Watched:
    """A primary with two replicas and three Sentinels; `url` is what a worker is given."""

    service = "main"

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self.primary = stack.enter_context(Server(appendonly=True))
        replica = ("--replicaof", f"127.0.0.1 {self.primary.port}")
        self.replicas = [stack.enter_context(Server(appendonly=True, options=replica)) for _ in range(2)]
        with self.primary.client() as client:
            until(lambda: client.info("replication")["connected_slaves"] == 2)
        self.ports = [free_port() for _ in range(3)]
        for port in self.ports:
            home = folder / str(port)
            home.mkdir()
            (home / "sentinel.conf").write_text(
                f"port {port}\nbind 127.0.0.1\ndir {home}\n"
                f"sentinel monitor {self.service} 127.0.0.1 {self.primary.port} 2\n"
                f"sentinel down-after-milliseconds {self.service} 1000\n"
                f"sentinel failover-timeout {self.service} 5000\n"
            )
            log = stack.enter_context((home / "log").open("wb"))
            process = subprocess.Popen(
                [str(find_binary()), str(home / "sentinel.conf"), "--sentinel"], stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        for port in self.ports:
            client = sync_redis.Redis(port=port)
            until(partial(self._knows_all, client))

    def _knows_all(self, sentinel: Any) -> bool:
        known = sentinel.sentinel_master(self.service)
        return bool(known["num-other-sentinels"] == 2 and known["num-slaves"] == 2)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis-sentinel://{hosts}/{self.service}"

    def primary_port(self) -> int:
        """Where the Sentinels say that the primary is."""
        return int(sync_redis.Redis(port=self.ports[0]).sentinel_master(self.service)["port"])


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """A primary, two replicas and three Sentinels."""
    with contextlib.ExitStack() as stack:
        yield Watched(stack, folder)


@contextlib.contextmanager
def workers(count: int, **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Real worker processes, ended with SIGTERM; their lines go to this process's standard error."""
    command = [sys.executable, "-m", "arq", "match_ratings_worker.settings.WorkerSettings"]
    env = {**os.environ, "RATINGS_IDLE_SECONDS": "2", "RATINGS_LOG_LEVEL": "warning", **environment}
    running = [subprocess.Popen(command, env=env) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
