"""Part 3: 1, 2, 4 and 8 workers, with many players and with few."""

from __future__ import annotations

import os

from benchmarks.lab import Drain, Lab, summary
from benchmarks.matches import Matches
from benchmarks.processes import Program
from benchmarks.report import Column, Section, Spread, Target

__all__ = ["scaling"]

_PLAYERS = (100_000, 1_000, 50)
_WORKERS = (1, 2, 4, 8)
#: Seconds after which a run is over, however far it came.
_PATIENCE = 20.0


def scaling(lab: Lab) -> list[Section]:
    """More and more workers, then fewer and fewer, so that a machine that slows down favours none."""
    count = lab.size(15_000, 1_500)
    fillings = {players: Matches(count, players).commands() for players in _PLAYERS}
    done: dict[tuple[int, int], list[Drain]] = {}
    with lab.workers(0) as workers:
        for turn in lab.rounds(2, 35):
            for number in _WORKERS if turn == 1 else reversed(_WORKERS):
                _have(lab, workers, number)
                for players, commands in fillings.items():
                    lab.step(f"round {turn}: {number} of {max(_WORKERS)} workers, {players:,} players")
                    done.setdefault((players, number), []).append(
                        lab.drain(commands, workers, patience=_PATIENCE)
                    )
    columns = (
        Column("name", ""),
        Column("rate", "matches/s"),
        Column("against_one", "÷ one", 2),
        Column("worker_us", "workers' CPU, µs each"),
        Column("server_us", "server CPU, µs each"),
        Column("ratings", "final ratings"),
    )
    section = Section("Scaling: workers on one ladder", columns)
    for players in _PLAYERS:
        rates = {number: summary(done[players, number]).rate for number in _WORKERS}
        hashes = {drain.ratings for number in _WORKERS for drain in done[players, number] if drain.ratings}
        for number in _WORKERS:
            ratings = {drain.ratings or "not finished" for drain in done[players, number]}
            section.rows.append(
                summary(done[players, number]).row(
                    f"{players:,} players, {number} worker{'s' if number > 1 else ''}",
                    players=players,
                    workers=number,
                    against_one=rates[number] / rates[1],
                    ratings=" ".join(sorted(ratings)),
                )
            )
        section.targets += _targets(players, rates, len(hashes))
    section.notes = [
        f"{count:,} matches; {os.cpu_count()} cores for the server, the workers and everything else."
    ]
    return [section]


def _have(lab: Lab, workers: list[Program], number: int) -> None:
    """Starts or stops workers until there are that many."""
    lab.wire.at_once(lab.emptied())
    while len(workers) > number:
        workers.pop().stop()
    if len(workers) < number:
        lab.add_workers(workers, number - len(workers))


def _targets(players: int, rates: dict[int, Spread], hashes: int) -> list[Target]:
    cores = os.cpu_count() or 1
    four = rates[4] / rates[1]
    name = f"{players:,} players"
    found = [Target(f"{name}: four workers ÷ one", ">= 0.9", four, four >= 0.9)]
    if players == max(_PLAYERS):
        two = rates[2] / rates[1]
        note = "" if cores > 2 else f"no core to spare: {cores} cores, a server and two workers"
        found.append(Target(f"{name}: two workers ÷ one", ">= 1.3", two, two >= 1.3, note))
    found.append(Target(f"{name}: different final ratings", "= 1", hashes, hashes <= 1, vital=True))
    return found
