"""The two ends of a latency measurement, each a process of its own: a sender and a reader."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson

from benchmarks.processes import BenchError
from benchmarks.wire import Wire, pack

__all__ = ["Ends", "Sent"]

#: Milliseconds that the reader waits for one more message.
_GIVE_UP_MS = 5_000


class Sent(NamedTuple):
    """When messages were due, and how late the last of the late ones was sent, in seconds."""

    begun: float
    latest: float
    cpu: float


def _send(wire: Wire, commands: list[bytes], interval: float) -> Sent:
    """Sends each command when it is due, whatever became of those before."""
    monotonic, sleep = time.monotonic, time.sleep
    begun = monotonic() + 0.05
    latest, at, cpu = 0.0, 0, time.process_time()
    while at < len(commands):
        ahead = begun + at * interval - monotonic()
        if ahead > 0:
            sleep(ahead)
        now = monotonic()
        latest = max(latest, now - begun - at * interval)
        due = min(int((now - begun) / interval) + 1, len(commands))
        wire.socket.sendall(b"".join(commands[at:due]))
        at = due
        wire.discard()
    return Sent(begun, latest, time.process_time() - cpu)


def _read(wire: Wire, ready: Callable[[], None], stream: str, count: int) -> list[tuple[float, str]]:
    """The ids of the next matches on a stream, each with the time when it was there to read."""
    newest = wire.call("XREVRANGE", stream, "+", "-", "COUNT", 1)
    last = newest[0][0] if newest else "0-0"
    ready()
    batches, got = [], 0
    while got < count:
        reply = wire.call("XREAD", "COUNT", 2000, "BLOCK", _GIVE_UP_MS, "STREAMS", stream, last)
        now = time.monotonic()
        if not reply:
            break
        entries = reply[0][1]
        last, got = entries[-1][0], got + len(entries)
        batches.append((now, entries))
    return [(now, orjson.loads(fields[1])["match_id"]) for now, entries in batches for _, fields in entries]


def _serve(port: int, pipe: Connection) -> None:
    wire = Wire(port)
    gc.disable()
    while task := pipe.recv():
        kind, *arguments = task
        if kind == "send":
            pipe.send(_send(wire, *arguments))
        else:
            pipe.send(_read(wire, lambda: pipe.send("ready"), *arguments))
        gc.collect()


class Ends:
    """Both processes; they end with this one."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for _ in range(2):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(port, there), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def latencies(
        self, stream: str, messages: Sequence[tuple[str, str]], to: str, rate: int
    ) -> tuple[list[float], Sent]:
        """Sends messages (match id, text) to `to` at a rate and reads their ids from `stream`.

        Returns for each, in order, the seconds from when it was due to when it could be read.
        """
        sender, reader = self._pipes
        commands = [pack("XADD", to, "*", "message", message) for _, message in messages]
        reader.send(("read", stream, len(messages)))
        reader.recv()
        sender.send(("send", commands, 1 / rate))
        sent: Sent = sender.recv()
        arrived = {match_id: now for now, match_id in reader.recv()}
        if len(arrived) != len(messages):
            raise BenchError(f"{len(messages) - len(arrived)} of {len(messages)} events did not come")
        due = (sent.begun + number / rate for number in range(len(messages)))
        return [arrived[match_id] - when for (match_id, _), when in zip(messages, due, strict=True)], sent

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(2)
            process.kill()
