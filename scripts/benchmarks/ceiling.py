"""Part 2: what the server can give at most, and how much of that one worker reaches."""

from __future__ import annotations

import time
from importlib import resources

from benchmarks.lab import Drain, Lab, summary
from benchmarks.matches import LADDER, Matches
from benchmarks.processes import BenchError
from benchmarks.recorder import Recorder
from benchmarks.report import Column, Section, Target
from benchmarks.throughput import WORKER, run_worker
from match_ratings.stream_names import inbox

__all__ = ["ceiling"]

_CEILING = "the same calls, sent back to back"


def ceiling(lab: Lab) -> list[Section]:
    """Records a worker's script calls, then sends them again to a server with the same data."""
    matches = Matches(lab.size(20_000, 3_000), players=100_000)
    begin_ms = int(time.time() * 1000)
    # Stream ids are part of the calls, so the same ones must be there again.
    commands = matches.commands(ids_from_ms=begin_ms)
    lab.step("recording the calls of a worker")
    calls, ratings = _record(lab, commands)
    payload = b"".join(calls)
    replays: list[Drain] = []
    drains: list[Drain] = []
    for turn in lab.rounds(4, 15):
        lab.step(f"round {turn}: {_CEILING}")
        replays.append(_replay(lab, commands, payload, matches.count))
        if replays[-1].ratings != ratings:
            raise BenchError("the recorded calls made other ratings than the worker")
        lab.step(f"round {turn}: {WORKER}")
        drains.append(run_worker(lab, commands))
    most, worker = summary(replays), summary(drains)
    share = worker.rate / most.rate
    columns = (
        Column("name", ""),
        Column("rate", "matches/s"),
        Column("share", "of the ceiling"),
        Column("worker_us", "client CPU, µs each"),
        Column("server_us", "server CPU, µs each"),
    )
    section = Section("Ceiling: claim, read and commit with ready-made arguments", columns)
    section.rows = [most.row(_CEILING, share=None), worker.row(WORKER, share=f"{share:.0%}")]
    section.targets = [Target("one worker ÷ ceiling", ">= 0.6", share, share >= 0.6)]
    section.notes = [
        f"{len(calls)} calls, {len(payload) / matches.count:,.0f} bytes for each match, over one connection; "
        "the final ratings are the worker's."
    ]
    return [section]


def _record(lab: Lab, commands: list[bytes]) -> tuple[list[bytes], str]:
    for script in (
        resources.files("match_ratings_worker.storage").joinpath("lua").iterdir()
    ):  # so that EVALSHA never fails
        lab.wire.call("SCRIPT", "LOAD", script.read_text(encoding="utf-8"))
    lab.wire.at_once(lab.emptied())
    with Recorder(lab.server.port) as recorder, lab.workers(RATINGS_REDIS_URL=recorder.url) as workers:
        skip = len(recorder.calls(b"EVALSHA"))
        ratings = lab.drain(commands, workers).ratings
        return recorder.calls(b"EVALSHA")[skip:], ratings


def _replay(lab: Lab, commands: list[bytes], payload: bytes, count: int) -> Drain:
    lab.wire.at_once([*lab.emptied(), *commands])
    server_cpu, own_cpu = lab.server_cpu(), time.process_time()
    seconds, _ = lab.wire.flood(payload)
    own_cpu, server_cpu = time.process_time() - own_cpu, lab.server_cpu() - server_cpu
    if lab.wire.call("XLEN", inbox(LADDER)):
        raise BenchError("the recorded calls did not empty the stream")
    return Drain(count, seconds, own_cpu, server_cpu, lab.ratings())
