"""The supervisor of worker processes, with small programs in their place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from match_ratings_worker.runtime import process_supervisor
from match_ratings_worker.runtime.process_supervisor import WorkersKeepEnding, supervise
from match_ratings_worker.runtime.stop_signals import stop_signals
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def program(path: Path, body: str) -> list[str]:
    """A Python program that notes each start in `path`, then runs `body`; `n` is the number of this start."""
    note = (
        "import os, signal, sys, time\n"
        f"with open({str(path)!r}, 'a') as file: file.write(str(os.getpid()) + '\\n')\n"
        f"n = open({str(path)!r}).read().split().index(str(os.getpid())) + 1\n"
    )
    return [sys.executable, "-I", "-S", "-c", note + body]


def starts(path: Path) -> list[int]:
    """The process ids of the program so far."""
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def when(happened: Callable[[], object], act: Callable[[], object]) -> threading.Thread:
    """Do something in a thread, once something is true."""

    def wait() -> None:
        until(happened)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def send(number: int) -> Callable[[], None]:
    """Send this process a signal."""
    return lambda: os.kill(os.getpid(), number)


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Short pauses."""
    monkeypatch.setattr(process_supervisor, "_PAUSES", (0.01, 0.05))
    return monkeypatch


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_all_processes(tmp_path: Path, number: int) -> None:
    # Given two processes; when the supervisor gets a signal
    path, before = tmp_path / "starts", signal.getsignal(number)
    asking = when(lambda: len(starts(path)) == 2, send(number))
    # Then it returns 0, the processes are gone, and signals are handled as before
    assert supervise(program(path, "time.sleep(60)"), [{}, {}]) == 0
    asking.join()
    assert not any(running(pid) for pid in starts(path))
    assert signal.getsignal(number) is before


def test_an_ignored_hangup_stays_ignored() -> None:
    # Given nohup
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stop_signals()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.SIGHUP in stop_signals()


def test_each_process_has_its_own_environment_and_a_session_of_its_own(tmp_path: Path) -> None:
    path, found = tmp_path / "starts", tmp_path / "found"
    body = (
        f"with open({str(found)!r}, 'a') as file:\n"
        "    file.write(os.environ['NAME'] + str(os.getsid(0) == os.getpid()) + '\\n')\n"
        "time.sleep(60)"
    )
    asking = when(lambda: found.exists() and len(found.read_text().splitlines()) == 2, send(signal.SIGTERM))
    assert supervise(program(path, body), [{"NAME": "a"}, {"NAME": "b"}]) == 0
    asking.join()
    assert sorted(found.read_text().splitlines()) == ["aTrue", "bTrue"]


@pytest.mark.parametrize("code", [2, 3])
def test_a_wrong_setting_or_no_redis_at_the_first_start_ends_all(tmp_path: Path, code: int) -> None:
    path = tmp_path / "starts"
    assert supervise(program(path, f"sys.exit({code} if n == 1 else time.sleep(60))"), [{}, {}]) == code
    assert not any(running(pid) for pid in starts(path))


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("sys.exit(7)", "exit code 7"),
        ("sys.exit(0)", "exit code 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL"),
    ],
)
def test_it_gives_up_when_all_keep_ending_at_once(
    tmp_path: Path, quick: pytest.MonkeyPatch, body: str, ending: str
) -> None:
    path = tmp_path / "starts"
    with pytest.raises(WorkersKeepEnding) as caught:
        supervise(program(path, body), [{}, {}])
    assert str(caught.value) == (
        f"the workers keep ending soon after their start, 5 times in a row, last with {ending}; "
        "their log has the reason"
    )
    assert len(starts(path)) >= 10


def test_it_does_not_give_up_while_one_process_runs(tmp_path: Path, quick: pytest.MonkeyPatch) -> None:
    # Given a process that runs, and one that ends again and again
    path = tmp_path / "starts"
    asking = when(lambda: len(starts(path)) > 12, send(signal.SIGTERM))
    assert supervise(program(path, "time.sleep(60) if n == 1 else sys.exit(1)"), [{}, {}]) == 0
    asking.join()


def test_it_does_not_give_up_for_want_of_redis(tmp_path: Path, quick: pytest.MonkeyPatch) -> None:
    # Given a process that crashes when Redis is away, and that cannot be started without it
    path = tmp_path / "starts"
    asking = when(lambda: len(starts(path)) > 10, send(signal.SIGTERM))
    assert supervise(program(path, "sys.exit(1 if n == 1 else 3)"), [{}]) == 0
    asking.join()


def test_the_pause_is_short_again_after_a_healthy_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given pauses of 0.1, 0.2, 0.4 ... 1000 s, and a process that ends at once four times, runs for long
    # enough, and ends again
    monkeypatch.setattr(process_supervisor, "_PAUSES", (0.1, 1000.0))
    monkeypatch.setattr(process_supervisor, "_HEALTHY_SECONDS", 1.0)
    path = tmp_path / "starts"
    begun: dict[int, float] = {}

    def seen() -> bool:
        for number in range(len(starts(path))):
            begun.setdefault(number + 1, time.monotonic())
        return len(begun) >= 6

    asking = when(seen, send(signal.SIGTERM))
    assert supervise(program(path, "time.sleep(1.5 if n == 5 else 60 if n > 5 else 0)"), [{}]) == 0
    asking.join()
    # Then the fifth start waited for 0.8 s, and the sixth came 0.1 s after the run
    assert begun[5] - begun[4] > 0.8
    assert 1.5 < begun[6] - begun[5] < 2.3


def test_processes_see_the_end_of_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    # Given a supervisor with two processes that watch their standard input
    path = tmp_path / "starts"
    body = (
        "sys.path[:] = "
        + repr(sys.path)
        + (
            "\nfrom match_ratings_worker.runtime.stop_signals import stop_with_supervisor"
            "\nstop_with_supervisor()\ntime.sleep(60)"
        )
    )
    code = (
        "from match_ratings_worker.runtime.process_supervisor import supervise\n"
        f"supervise({program(path, body)!r}, [{{}}, {{}}])"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: len(starts(path)) == 2)
    # When it is killed, then they end
    supervisor.kill()
    supervisor.wait()
    until(lambda: not any(running(pid) for pid in starts(path)))


def test_a_process_that_cannot_be_stopped_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a process that ignores SIGTERM
    monkeypatch.setattr(process_supervisor, "STOP_SECONDS", 0.5)
    path = tmp_path / "starts"
    body = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(path)!r}, 'a').write('0\\n')\nwhile True: time.sleep(1)"
    )
    asking = when(lambda: len(starts(path)) == 2, send(signal.SIGTERM))
    assert supervise(program(path, body), [{}]) == 0
    asking.join()
    assert not running(starts(path)[0])
