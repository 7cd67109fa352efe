"""Part 4: how long from a match's XADD to its event, beside a bare hop through the same server."""

from __future__ import annotations

import statistics
from contextlib import closing
from typing import Any

from benchmarks.ends import Ends, Sent
from benchmarks.lab import Lab
from benchmarks.matches import LADDER, Matches
from benchmarks.report import Column, Section, Spread, Target
from match_ratings.stream_names import inbox, outbox

__all__ = ["latency"]

_HOP = "bench:hop"
_BARE, _WORKER = "bare hop", "match → event"
#: Seconds at the beginning that do not count.
_WARM_UP = 0.5


def latency(lab: Lab) -> list[Section]:
    """Sends at fixed rates, in turn through the worker and straight to the reader."""
    rates = (100, 1_000) if lab.quick else (100, 1_000, 5_000)
    seconds, turns = (1.5, 1) if lab.quick else (4.0, 2)
    columns = (
        Column("name", ""),
        Column("p50", "p50, ms", 2),
        Column("p99", "p99, ms", 2),
        Column("worst", "worst, ms", 1),
        Column("worker_us", "worker CPU, µs each"),
        Column("server_us", "server CPU, µs each"),
        Column("late", "latest sent, ms late", 1),
    )
    section = Section("Latency: from when a message is due to when what comes of it can be read", columns)
    lab.wire.at_once(lab.emptied())
    with closing(Ends(lab.server.port)) as ends, lab.workers() as workers:
        for rate in rates:
            count = int(rate * seconds)
            found: dict[str, list[dict[str, float]]] = {_BARE: [], _WORKER: []}
            for turn in range(turns):
                for name, runs in found.items():
                    lab.step(f"{rate:,} matches/s, {name}")
                    matches = Matches(count, 10_000, seed=f"{rate} {turn}")
                    ids = matches.ids.matches(count, matches.seed)
                    messages = list(zip(ids, matches.messages(), strict=True))
                    route = (_HOP, _HOP) if name == _BARE else (outbox(LADDER), inbox(LADDER))
                    worker_cpu, server_cpu = workers[0].cpu(), lab.server_cpu()
                    times, sent = ends.latencies(route[0], messages, route[1], rate)
                    cpu = (workers[0].cpu() - worker_cpu, lab.server_cpu() - server_cpu)
                    runs.append(_figures(times[int(rate * _WARM_UP) :], sent, cpu, count, name))
                    lab.wire.call("DEL", _HOP)
            section.rows += [_row(rate, name, runs) for name, runs in found.items()]
            if rate == 1_000:
                hop, ours = (row["p99"] for row in section.rows[-2:])
                section.targets.append(
                    Target("p99 at 1,000/s ÷ the bare hop's", "<= 5", ours / hop, ours / hop <= 5)
                )
    section.notes = [
        "The bare hop: XADD to a reader that waits in XREAD BLOCK, no worker between.",
        "Sent when due, whether or not what came before has arrived; a late sender counts as latency.",
        f"{turns} × {seconds:g} s each, the first {_WARM_UP:g} s left out; 10,000 players, one worker.",
    ]
    return [section]


def _figures(
    times: list[float], sent: Sent, cpu: tuple[float, float], count: int, name: str
) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    figures = {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3, "worst": max(times) * 1e3}
    figures |= {"server_us": cpu[1] / count * 1e6, "late": sent.latest * 1e3}
    return figures if name == _BARE else {**figures, "worker_us": cpu[0] / count * 1e6}


def _row(rate: int, name: str, runs: list[dict[str, float]]) -> dict[str, Any]:
    figures: dict[str, Any] = {key: Spread([run[key] for run in runs]) for key in runs[0]}
    worst = {key: max(run[key] for run in runs) for key in ("worst", "late")}
    return {"name": f"{rate:,}/s, {name}", "per_second": rate, **figures, **worst}
