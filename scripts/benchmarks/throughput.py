"""Part 1: matches/s of one worker, beside plain arq."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.arq_app import queued
from benchmarks.lab import Drain, Lab, summary
from benchmarks.matches import Matches
from benchmarks.processes import BenchError, Program, environment
from benchmarks.report import Column, Section, Spread, Target
from match_ratings.stream_names import outbox
from peers.finish import KEY

__all__ = ["COLUMNS", "WORKER", "run_jobs", "run_worker", "throughput"]

WORKER = "match-ratings, one worker"
COLUMNS = (
    Column("name", ""),
    Column("rate", "per second"),
    Column("share", "ours is", 1),
    Column("worker_us", "worker CPU, µs each"),
    Column("server_us", "server CPU, µs each"),
)


def run_worker(lab: Lab, commands: Sequence[bytes]) -> Drain:
    """One rating worker, from a full stream to an empty one."""
    with lab.workers() as workers:
        return lab.drain(commands, workers)


def run_jobs(lab: Lab, command: Sequence[str], count: int, *, seconds: float = 60) -> Drain:
    """Another library's worker on its filled queue, which is timed inside that worker."""
    begun = lab.server_cpu()
    with_env = environment(BENCH_REDIS_URL=lab.server.url)
    program = Program(command, with_env, lab.log())
    try:
        deadline = time.monotonic() + seconds
        while not (found := lab.wire.call("GET", KEY)):
            time.sleep(0.05)
            program.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{command[0]} did not do {count} jobs in {seconds:.0f} s")
        server_cpu = lab.server_cpu() - begun
    finally:
        program.stop(0)
    figures = json.loads(found)
    share = figures["jobs"] / count  # the first job starts the clock
    return Drain(figures["jobs"], figures["seconds"], figures["cpu"], server_cpu * share, "")


def throughput(lab: Lab) -> list[Section]:
    """One worker and arq, in turn."""
    python = Path(sys.executable)
    arq, app = str(python.with_name("arq")), "benchmarks.arq_app"
    quiet = ["--custom-log-dict", f"{app}.QUIET"]
    on_uvloop = [sys.executable, "-m", app, "EmptyTuned"]
    count, jobs, slow = lab.size(30_000, 3_000), lab.size(4_000, 400), lab.size(600, 40)
    matches = Matches(count, players=100_000)
    commands = matches.commands()
    empty = list(queued("empty", [(jobs,)] * jobs))
    few = list(queued("empty", [(slow,)] * slow))
    rating_jobs = lab.size(2_500, 300)
    messages = Matches(rating_jobs, players=100_000).messages()
    rating = list(queued("rate_match", [(rating_jobs, message) for message in messages]))

    def jobs_of(filling: Sequence[bytes], command: Sequence[str], number: int) -> Drain:
        lab.wire.at_once([*lab.emptied(), *filling])
        return run_jobs(lab, command, number)

    def rated() -> Drain:
        drain = jobs_of(rating, [arq, f"{app}.RateTuned", *quiet], rating_jobs)
        if lab.wire.call("XLEN", outbox(matches.ladder)) != rating_jobs:
            raise BenchError("the arq job did not rate every match")
        return drain

    runs: dict[str, Callable[[], Drain]] = {
        WORKER: lambda: run_worker(lab, commands),
        "arq, empty job, its defaults": lambda: jobs_of(few, [arq, f"{app}.Empty"], slow),
        "arq, empty job, tuned": lambda: jobs_of(empty, [arq, f"{app}.EmptyTuned", *quiet], jobs),
        "arq, empty job, tuned, on uvloop": lambda: jobs_of(empty, on_uvloop, jobs),
        "arq, a match rated in each job, tuned": rated,
    }
    done: dict[str, list[Drain]] = {name: [] for name in runs}
    for turn in lab.rounds(3, 35):
        for name, run in runs.items():
            lab.step(f"round {turn}: {name}")
            done[name].append(run())
    return [_section(done, matches)]


def _section(done: dict[str, list[Drain]], matches: Matches) -> Section:
    figures = {name: summary(drains) for name, drains in done.items()}
    ours = figures[WORKER].rate
    section = Section("Throughput: one worker process from a full queue to an empty one", COLUMNS)
    for name, figure in figures.items():
        section.rows.append(figure.row(name, share=None if name == WORKER else ratio(ours, figure.rate)))
    plain = [figures[name].rate for name in list(figures)[1:3]]
    times = ours / max(plain, key=lambda rate: rate.median)
    name = "one worker ÷ plain arq with an empty job, faster settings"
    section.targets = [Target(name, ">= 10", times, times >= 10)]
    section.notes = [
        f"{matches.count:,} matches between {matches.players:,} players; ids of 36 characters.",
        "arq's defaults read 100 jobs each half second; tuned: poll_delay 0, max_jobs 100, no results.",
        "The arq job that rates knows no order and no duplicates, and loses changes of players in two jobs.",
    ]
    return section


def ratio(ours: Spread, other: Spread) -> str:
    """How many times as fast, as a text."""
    return f"{ours / other:,.1f} ×"
