"""The demo: what it plays, that it notices what is wrong, and what it shows and leaves behind."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from demonstration.ledger_check import Account, Ledger
from demonstration.matches import Delivery, Door, deliveries
from match_ratings import Ending, MatchFinished, PlayerUpdate, RatingUpdated, Reason, WinType
from match_ratings.messages import CUBES
from match_ratings_worker.rating import Backgammon, Game, State
from tests.support.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_795_000_000_000
SECTIONS = (
    "The leaderboard",
    "One match, figure by figure",
    "What could not be rated",
    "Does it add up?",
    "It all adds up.",
)


# --- what it plays


def content(delivery: Delivery) -> object:
    """A delivery without its times."""
    message = delivery.message and delivery.message.model_dump(exclude={"finished_at"})
    fields = {
        name: re.sub(rb"\d{10,}|\d{4}-\d\d-\d\dT[^\"]*", b"", raw) for name, raw in delivery.fields.items()
    }
    return delivery.door, delivery.becomes, delivery.number, message, fields


def test_a_seed_gives_the_same_messages_at_any_time() -> None:
    played = [content(delivery) for delivery in deliveries(500, 1, NOW)]
    assert played == [content(delivery) for delivery in deliveries(500, 1, NOW + 123_456)]
    assert played != [content(delivery) for delivery in deliveries(500, 2, NOW)]


@pytest.mark.parametrize("matches", [1, 2, 30, 3000])
def test_there_is_all_that_can_become_of_a_message(matches: int) -> None:
    outcomes = Counter(delivery.becomes for delivery in deliveries(matches, 1, NOW))
    dead = {f"dead:{reason.value}" for reason in Reason}
    assert set(outcomes) == {"rated", "prize", "not-rated", "duplicate", *dead}


def test_there_are_all_doors_cubes_endings_and_wins_and_somebody_who_plays_a_lot() -> None:
    played = list(deliveries(300, 1, NOW))
    matches = [delivery.message for delivery in played if isinstance(delivery.message, MatchFinished)]
    assert {delivery.door for delivery in played} == set(Door)
    assert {match.cube for match in matches} == set(CUBES)
    assert {match.ending for match in matches} == set(Ending)
    assert {match.win_type for match in matches} == set(WinType)
    assert Counter(player for match in matches for player in match.players).most_common(1)[0][1] > 50
    assert any(b'"casual"' in raw for delivery in played for raw in delivery.fields.values())
    assert played[-1].number == 300


# --- that it notices what is wrong


def event(match_id: str = "m-1", sequence: int = 1, before: int = 1500) -> RatingUpdated:
    """Ada beats Bob, at the same rating."""
    game = Game(finished_at=NOW, scores=(1.0, 0.0))
    outcome = Backgammon().rate(State(before), State(before), game)
    players = tuple(
        PlayerUpdate(
            player=player,
            score=int(score),
            before=before,
            change=side.change,
            after=side.rating,
            expected=side.expected,
            k=side.k,
            recent_games=0,
            sequence=sequence,
        )
        for player, score, side in zip(("ada", "bob"), game.scores, outcome.sides, strict=True)
    )
    return RatingUpdated.model_validate(
        {
            "cause": "match",
            "match_id": match_id,
            "ladder": "backgammon",
            "system": "backgammon",
            "rules": outcome.rules,
            "cube": 1,
            "coefficient": outcome.coefficient,
            "finished_at": NOW,
            "rated_at": NOW,
            "players": [part.model_dump() for part in players],
        }
    )


def altered(whole: RatingUpdated, **change: object) -> RatingUpdated:
    first, second = whole.players
    return whole.model_copy(update={"players": (first.model_copy(update=change), second)})


def test_a_right_ledger_is_found_right() -> None:
    ledger = Ledger(Backgammon())
    ledger.add(event())
    assert (ledger.wrong_figures, ledger.gaps) == ([], [])
    assert ledger.ratings == {"ada": 1516, "bob": 1484}


@pytest.mark.parametrize(
    "change",
    [{"change": 17, "after": 1517}, {"after": 1517}, {"k": 16}, {"expected": 0.4}, {"recent_games": 1}],
)
def test_a_wrong_figure_is_noticed(change: dict[str, object]) -> None:
    ledger = Ledger(Backgammon())
    ledger.add(altered(event(), **change))
    assert ledger.wrong_figures


@pytest.mark.parametrize(
    "wrong", [event("m-2", sequence=3, before=1500), event("m-2", sequence=2, before=1500)]
)
def test_a_gap_is_noticed(wrong: RatingUpdated) -> None:
    ledger = Ledger(Backgammon())
    ledger.add(event())
    ledger.add(wrong)
    assert ledger.gaps


def test_a_match_rated_twice_is_noticed() -> None:
    ledger = Ledger(Backgammon())
    ledger.add(event())
    ledger.add(event())
    assert ledger.rated["m-1"] == 2


def test_the_account_knows_what_must_come_out() -> None:
    account = Account()
    for delivery in deliveries(100, 1, NOW):
        account.add(delivery)
    assert account.matches == 100
    assert len(account.rated) == account.outcomes["rated"] + account.outcomes["prize"]
    assert (
        account.dead_letters == sum(account.dead.values()) + 2
    )  # a pickled job, and an entry with no message


# --- what it shows and leaves behind


@dataclass(frozen=True)
class Stage:
    """Where a demo runs: a folder for its files, and a mark on all its processes."""

    folder: Path
    mark: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[str]:
        env = {**os.environ, "TMPDIR": str(self.folder), "DEMO_TEST": self.mark, "COLUMNS": "100"}
        command = [sys.executable, str(ROOT / "scripts" / "demo.py"), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.started.append(subprocess.Popen(command, env=env, text=True, **pipes))  # type: ignore[call-overload]
        return self.started[-1]

    def processes(self) -> list[psutil.Process]:
        """The demo's processes that run: those with its mark, and the server by its folder."""
        found = []
        for process in psutil.process_iter():
            try:
                home = Path(process.cwd())
                marked = process.environ().get("DEMO_TEST") == self.mark
            except (psutil.Error, OSError):  # it has ended, or is not ours
                continue
            if marked or home.is_relative_to(self.folder):
                found.append(process)
        return found

    def kill(self) -> None:
        for process in self.processes():
            process.kill()

    def left_nothing(self) -> bool:
        until(lambda: not self.processes(), otherwise=lambda: str(self.processes()))
        return not list(self.folder.iterdir())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, uuid.uuid4().hex)
    limit = threading.Timer(90, made.kill)
    limit.start()
    yield made
    limit.cancel()
    made.kill()
    for process in made.started:
        with process:  # closes its pipes
            process.wait()


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """Reads what a demo prints up to a line with this text."""
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if text in line:
            return read
    raise AssertionError(f"it ended without {text!r}: {read}")


@pytest.mark.slow
@pytest.mark.server
def test_without_a_terminal_it_shows_plain_lines_and_leaves_nothing(stage: Stage) -> None:
    output, errors = (demo := stage.start("--matches", "300", "--workers", "2")).communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (0, ""), output
    assert "\x1b" not in output
    for section in SECTIONS:
        assert section in output
    for said in ("300 matches", "held up", "is killed (SIGKILL)", "started anew", "taken over", "latest: m-"):
        assert said in output
    for reason in Reason:
        assert re.search(rf"^{reason.value} +[1-9]", output, re.MULTILINE), reason
    assert re.search(r"^K .* 16 ", output, re.MULTILINE)
    assert re.search(r"^K .* 32 ", output, re.MULTILINE)
    assert len(re.findall(r"^yes  ", output, re.MULTILINE)) == 6
    assert stage.left_nothing()


@pytest.mark.slow
@pytest.mark.server
def test_on_a_terminal_it_moves(stage: Stage) -> None:
    main, other = pty.openpty()
    demo = stage.start("--matches", "100", stdout=other, stderr=other, stdin=other)
    os.close(other)
    output = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # so Linux tells that the other side is closed
            break
        if not part:
            break
        output += part
    os.close(main)
    assert demo.wait(PATIENCE) == 0, output.decode()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())
    assert b"\x1b[1A" in output and b"\x1b[?25h" in output  # up a line; in the end the cursor is back
    for section in ("━━━━━━━━━━", "worker 2 killed", "100 of 100", *SECTIONS):
        assert section in shown
    assert "Traceback" not in shown
    assert stage.left_nothing()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_at_once_with_nothing_left(stage: Stage, number: signal.Signals, code: int) -> None:
    demo = stage.start("--matches", "300")
    wait_for(demo, "is killed (SIGKILL)")
    assert len(stage.processes()) >= 3
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (code, "")
    assert stage.left_nothing()


@pytest.mark.slow
@pytest.mark.server
def test_ctrl_c_while_it_starts_ends_it_too(stage: Stage) -> None:
    demo = stage.start()
    wait_for(demo, "match-ratings demo")
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (130, "")
    assert stage.left_nothing()


@pytest.mark.slow
@pytest.mark.server
def test_a_worker_that_ends_by_itself_is_an_error_and_the_logs_are_kept(stage: Stage) -> None:
    demo = stage.start("--workers", "1")
    wait_for(demo, "match-ratings demo")
    (worker,) = until(lambda: [found for found in stage.processes() if "worker" in found.cmdline()])
    worker.kill()
    _, errors = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 1
    assert errors.startswith("demo: worker 1 ended by itself with status -9\n")
    (kept,) = stage.folder.iterdir()
    assert str(kept) in errors
    assert (kept / "worker-1.log").is_file()
    until(lambda: not stage.processes())
    shutil.rmtree(kept)


@pytest.mark.slow
@pytest.mark.server
def test_a_reader_that_goes_away_ends_it_quietly(stage: Stage) -> None:
    demo = stage.start("--matches", "1")
    wait_for(demo, "match-ratings demo")
    assert demo.stdout is not None and demo.stderr is not None
    demo.stdout.close()
    assert demo.wait(PATIENCE) == 141
    assert demo.stderr.read() == ""
    demo.stderr.close()
    assert stage.left_nothing()


@pytest.mark.parametrize(
    "arguments",
    [
        "--matches 0",
        "--matches 1000001",
        "--matches x",
        "--workers 0",
        "--workers 17",
        "--seed",
        "--nope",
        "more",
    ],
)
def test_wrong_options_are_one_line(stage: Stage, arguments: str) -> None:
    output, errors = (demo := stage.start(*arguments.split())).communicate(timeout=PATIENCE)
    assert (demo.returncode, output) == (2, "")
    assert errors.startswith("demo: ") and errors.count("\n") == 1
    assert arguments.split()[0] in errors
    assert stage.left_nothing()
