"""The part `peers`: other job queues with an empty job, each in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lab import Drain, Lab, summary
from benchmarks.matches import Matches
from benchmarks.processes import SCRIPTS, BenchError, environment
from benchmarks.report import Section
from benchmarks.throughput import COLUMNS, WORKER, ratio, run_jobs, run_worker

__all__ = ["peers"]

_LOCKS = SCRIPTS / "peers"
_CACHE = SCRIPTS.parent / ".cache" / "peers"


@dataclass
class _Peer:
    """A library: its distribution, what it is compared as, and its worker's command."""

    name: str
    distribution: str
    how: str
    command: Sequence[str]
    version: str = ""
    why_not: str = ""
    drains: list[Drain] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return _CACHE / f"{self.name}-{sys.version_info.major}.{sys.version_info.minor}"

    def program(self, name: str) -> str:
        return str(self.directory / "bin" / name)


def _known() -> list[_Peer]:
    app = "peers.{}_app"
    return [
        _Peer("saq", "saq", "one process", ("saq", app.format("saq") + ".settings")),
        _Peer(
            "taskiq",
            "taskiq-redis",
            "stream, one process, uvloop",
            ("taskiq", "worker", "--workers", "1", app.format("taskiq") + ":broker"),
        ),
        _Peer(
            "dramatiq",
            "dramatiq",
            "one process, 8 threads",
            ("dramatiq", "--processes", "1", app.format("dramatiq")),
        ),
        _Peer(
            "celery",
            "celery",
            "one process, pool solo",
            ("celery", "-A", app.format("celery"), "worker", "--pool", "solo"),
        ),
    ]


def peers(lab: Lab) -> list[Section]:
    """Installs what is not there yet, then lets everything have its turns."""
    known = _known()
    lab.step("setting up the peers' environments (once)")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_install, known))
    jobs = lab.size(3_000, 500)
    commands = Matches(lab.size(30_000, 3_000), players=100_000).commands()
    ours: list[Drain] = []
    for turn in lab.rounds(2, 25):
        lab.step(f"round {turn}: {WORKER}")
        ours.append(run_worker(lab, commands))
        for peer in known:
            if peer.why_not:
                continue
            lab.step(f"round {turn}: {peer.name}")
            try:
                peer.drains.append(_run(lab, peer, jobs))
            except BenchError as error:
                peer.why_not = f"did not run: {_last_line(str(error))}"
    rated = summary(ours)
    section = Section("Peers: an empty job each, one worker process", COLUMNS)
    section.rows.append(rated.row(WORKER, share=None))
    for peer in known:
        name = f"{peer.distribution} {peer.version}, empty job"
        if peer.why_not:
            section.rows.append({"name": name, "share": "–", "why_not": peer.why_not})
        else:
            figures = summary(peer.drains)
            section.rows.append(figures.row(name, share=ratio(rated.rate, figures.rate), how=peer.how))
    section.notes = [f"{peer.distribution}: {peer.why_not or peer.how}." for peer in known]
    return [section]


def _run(lab: Lab, peer: _Peer, jobs: int) -> Drain:
    lab.wire.at_once(lab.emptied())
    command = [peer.program("python"), "-m", f"peers.{peer.name}_app", str(jobs)]
    env = environment(BENCH_REDIS_URL=lab.server.url)
    filled = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    if filled.returncode:
        raise BenchError(filled.stderr)
    return run_jobs(lab, [peer.program(peer.command[0]), *peer.command[1:]], jobs, seconds=30)


def _install(peer: _Peer) -> None:
    """Makes the peer's environment from its lock, unless it is there; else says in `why_not` why not."""
    lock = _LOCKS / f"{peer.name}.lock"
    stamp = peer.directory / ".made-from"
    wanted = f"{hashlib.sha256(lock.read_bytes()).hexdigest()} {peer.directory}"  # it cannot be moved
    pip = [peer.program("python"), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    install = [*pip, "install", "--quiet", "--only-binary", ":all:", "--require-hashes", "-r", str(lock)]
    peer.version = next(
        line.split("==")[1].split()[0]
        for line in lock.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"{peer.distribution}==")
    )
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    for command in ([sys.executable, "-m", "venv", "--clear", str(peer.directory)], install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            peer.why_not = f"not installed: {_last_line(str(error))}"
            return
        if done.returncode:
            peer.why_not = f"not installed: {_last_line(done.stderr)}"
            return
    stamp.write_text(wanted)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["no reason given"])[-1][:160]
