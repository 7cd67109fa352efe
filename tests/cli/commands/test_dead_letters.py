"""The dead-letters commands, each with its output, its exit code and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded import Endpoint
from match_ratings.stream_names import FIELD
from match_ratings_worker.pipeline.claim_read_commit import LadderStore
from match_ratings_worker.pipeline.process_batch import BatchProcessor
from match_ratings_worker.rating import Backgammon
from match_ratings_worker.storage.redis_connection import connect
from match_ratings_worker.storage.redis_keys import Keys
from tests.support.clock import DAY, now_ms
from tests.support.office import HORIZON
from tests.support.processes import Ended, Worker, command, config_file
from tests.support.waiting import until


class Desk:
    """A ladder and the command line for it."""

    def __init__(self, url: str, ladder: str, redis: Any, config: Path) -> None:
        self.url, self.ladder, self.redis, self.config = url, ladder, redis, config
        self.keys = Keys(ladder)
        self.now = now_ms()

    def __call__(self, *arguments: str) -> Ended:
        return command("dead-letters", *arguments, url=self.url, config=self.config)

    def match(self, match_id: str, **other: Any) -> dict[str, Any]:
        players = ["ada", "bob"]
        match = {"match_id": match_id, "ladder": self.ladder, "players": players, "winner": "ada"}
        return {**match, "finished_at": self.now - 60_000, **other}

    def die(self, *messages: dict[str, Any] | bytes) -> list[str]:
        """Has messages rated; returns the ids of all dead letters, oldest first."""
        for message in messages:
            raw = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.redis.xadd(self.keys.inbox, {FIELD: raw})
        asyncio.run(self._work())
        until(lambda: not self.redis.xlen(self.keys.inbox))  # a worker may have taken them
        return [entry_id.decode() for entry_id, _ in self.redis.xrange(self.keys.dead_letters)]

    async def _work(self) -> None:
        async with connect(self.url) as redis:
            store = LadderStore(redis, self.ladder, Backgammon(), horizon=HORIZON)
            engine = BatchProcessor(store, self.ladder, Backgammon(), "test")
            await store.join_group()
            while await engine.claim_new() or engine.waiting:
                await engine.settle()
            await engine.shut_down()


@pytest.fixture
def desk(server: Endpoint, ladder: str, tmp_path: Path) -> Iterator[Desk]:
    with server.client() as redis:
        yield Desk(server.url, ladder, redis, config_file(tmp_path / "ladders.toml", ladder))


@pytest.fixture
def worker(desk: Desk, tmp_path: Path) -> Iterator[Worker]:
    with Worker.running(desk.url, desk.config, tmp_path / "worker.log") as worker:
        yield worker


def one_line(ended: Ended, code: int) -> str:
    """The only line of standard error of a command that failed."""
    assert ended.returncode == code and ended.stderr.count("\n") == 1, ended
    return ended.stderr.removeprefix("match-ratings: ").rstrip("\n")


def test_list_filters_pages_and_counts(desk: Desk) -> None:
    ids = desk.die(
        desk.match("a", cube=3), b"{", desk.match("b", winner="cyd"), desk.match("c", finished_at=1)
    )
    assert [row["id"] for row in desk("list", "--json", "--match", "a").json_lines] == [ids[0]]
    assert [row["id"] for row in desk("list", "--json", "--player", "cyd").json_lines] == [ids[2]]
    assert len(desk("list", "--json", "--since", "1h", "--reason", "invalid").json_lines) == 3
    assert desk("list", "--before", "1h").stderr == "there are no dead letters of this kind\n"
    # A page after another
    page = desk("list", "--json", "--limit", "3")
    assert [row["id"] for row in page.json_lines] == ids[:0:-1]
    assert page.stderr == f"3 shown, there are more; --after {ids[1]} goes on, --limit 0 shows all\n"
    assert [row["id"] for row in desk("list", "--json", "--after", ids[1]).json_lines] == [ids[0]]
    # Counts
    assert desk("list", "--counts", "--json").json == {
        "dead_letters": 4,
        "by_reason": {"invalid": 3, "malformed": 1},
    }
    rows = [line.split() for line in desk("list", "--counts").stdout.splitlines()[1:]]
    assert rows == [["3", "invalid"], ["1", "malformed"], ["4", "all"]]


def test_show_has_the_bytes_the_fields_what_is_wrong_and_what_to_do(desk: Desk) -> None:
    [letter] = desk.die(desk.match("m", finished_at=desk.now // 1000))
    ended = desk("show", letter)
    assert ended.returncode == 0 and not ended.stderr
    assert ended.stdout.startswith(f"{letter} on ladder {desk.ladder}: invalid\n")
    assert f'{{"match_id": "m", "ladder": "{desk.ladder}"' in ended.stdout
    assert '  players      ["ada", "bob"]\n' in ended.stdout
    assert "wrong: finished_at\n" in ended.stdout and "whole milliseconds since 1970" in ended.stdout
    hint = f"edit {letter} --set finished_at={desk.now // 1000}000"
    assert hint in ended.stdout and "a replay would give\n  still wrong: finished_at" in ended.stdout
    # And the command that it names makes it valid
    ended = desk(*hint.split(), "--why", "seconds")
    assert ended.returncode == 0 and ended.stderr.startswith(
        "a replay would give: rated: ada 1500 -> 1516, bob"
    )
    new = ended.stdout.split()[-1]
    assert "history\n" in desk("show", new).stdout and "seconds; before: {" in desk("show", new).stdout
    document = desk("show", new, "--json").json
    assert document["replay_would_give"]["outcome"] == "rated" and document["history"][0]["why"] == "seconds"


def test_nothing_from_a_message_reaches_the_terminal_as_it_is(desk: Desk) -> None:
    hostile = "\x1b[2J\x9b31m\u202e\x07"
    desk.redis.xadd(
        desk.keys.dead_letters,
        {
            "message": b"\xff" + hostile.encode(),
            "reason": hostile,
            "detail": hostile,
            "source_id": hostile,
            "history": json.dumps([{"who": hostile, "why": hostile, "at": 1, "message": hostile}]),
        },
    )
    [letter, *_] = desk.die(desk.match(hostile, cube=3, players=[hostile, "bob"], **{hostile: hostile}))
    for arguments in (["list"], ["list", "--counts"], ["show", letter], ["replay", "--all", "--dry-run"]):
        for ended in (desk(*arguments), desk(*arguments, "--json")):
            assert ended.returncode == 0
            text = ended.stdout + ended.stderr
            assert all(line.isprintable() for line in text.splitlines()), text
            assert "\u202e" not in text
    assert desk("export").stdout.isascii()


def test_replay_says_what_became_of_each_and_the_sum(desk: Desk, worker: Worker) -> None:
    ids = desk.die(desk.match("a", cube=3), desk.match("b", version=2), b"{")
    ids += [
        desk.redis.xadd(
            desk.keys.dead_letters,
            {"message": json.dumps(desk.match("c")), "reason": "failed", "first_seen": desk.now},
        ).decode()
    ]
    before = desk.redis.xrange(desk.keys.dead_letters)
    dry = desk("replay", "--all", "--dry-run")
    assert dry.returncode == 0 and desk.redis.xrange(desk.keys.dead_letters) == before
    *rows, summary = dry.stdout.splitlines()
    assert summary.startswith("nothing was changed; a replay would give: rated 1, still wrong 2 (invalid 1,")
    assert [ids[3], "rated", "-"] in [row.split() for row in rows]
    ended = desk("replay", "--all")
    assert ended.returncode == 0
    assert ended.stdout == "replayed: rated 1, still wrong 2 (invalid 1, malformed 1), parked 1\n"
    # Some by their ids, each with a line
    [last, *_] = [row["id"] for row in desk("list", "--json").json_lines]
    ended = desk("replay", last, "1-1", "--json")
    assert ended.returncode == 1
    gone, wrong, summary = ended.json_lines
    assert (gone["letter"], gone["outcome"]) == ("1-1", "gone")
    assert wrong["outcome"] == "still-wrong" and wrong["reason"] == "malformed" and wrong["new_id"] != last
    assert summary["dead_letters"] == 2 and summary["outcomes"] == {"still-wrong": 1, "gone": 1}
    # The run can be asked again
    again = desk("replay", "--resume", summary["replay"], "--json")
    assert again.returncode == 0 and again.json["outcomes"] == {"still-wrong": 1, "gone": 1}
    assert desk("replay", "--reason", "failed").stderr.endswith("there are no such dead letters\n")


def test_a_replay_without_a_worker_says_so_at_once(desk: Desk) -> None:
    desk.die(desk.match("a", cube=3))
    ended = desk("replay", "--all")
    assert ended.returncode == 3
    assert ended.stdout == "replayed: left 1\n"
    assert f"no worker rates this ladder ({desk.ladder}): 1 are left as dead letters" in ended.stderr


def test_force_late(desk: Desk, worker: Worker) -> None:
    [letter] = desk.die(desk.match("m", finished_at=desk.now - HORIZON - DAY))
    assert "not forced" not in desk("replay", letter).stdout
    desk.redis.xadd(desk.keys.outbox, {"message": "{}"})
    desk.redis.xtrim(desk.keys.outbox, maxlen=0, approximate=False)
    ended = desk("replay", letter, "--force-late")
    assert "not forced: the ledger does not go back to the day of this match" in ended.stdout
    ended = desk("replay", letter, "--force-late", "--never-rated", "an outage", "--by", "mia")
    assert ended.returncode == 0 and "replayed: rated 1" in ended.stdout
    [(_, kept)] = desk.redis.xrange(desk.keys.corrections)
    assert json.loads(kept[b"history"])[0]["why"] == "an outage"


def test_edit_in_an_editor(desk: Desk, tmp_path: Path) -> None:
    # Given an editor that puts the cube right
    editor = tmp_path / "my editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\np = sys.argv[-1]\nt = open(p).read()\n"
                      "open(p, 'w').write(t.replace('\"cube\": 3', '\"cube\": 2'))\n")  # fmt: skip
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    [letter] = desk.die(desk.match("m", cube=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VISUAL", raising=False)
        patch.setenv("EDITOR", f"'{editor}'")
        ended = desk("edit", letter, "--why", "a typo")
        assert ended.returncode == 0
        [(_, fields)] = desk.redis.xrange(desk.keys.dead_letters)
        assert fields[b"message"] == json.dumps(desk.match("m", cube=2)).encode()
        # Then one that changes nothing, one that fails, and one that is not there
        new = ended.stdout.split()[-1]
        for command_line, sentence in (
            ("true", "nothing was changed"),
            ("false", "EDITOR: false ended with 1"),
            ("/no/such", "EDITOR: /no/such cannot be run"),
            ("'", "EDITOR: ' cannot be run"),
        ):
            patch.setenv("EDITOR", command_line)
            assert one_line(desk("edit", new, "--why", "x"), 2).startswith(sentence)


def test_edit_keeps_what_is_still_wrong_only_anyway(desk: Desk) -> None:
    [letter] = desk.die(desk.match("m", cube=3))
    text = one_line(desk("edit", letter, "--set", "cube=5", "--why", "x"), 2)
    assert text.startswith(f"{letter} is still wrong and was not changed (--force stores it): cube: 5")
    ended = desk("edit", letter, "--set", "cube=5", "--why", "x", "--force", "--json")
    assert ended.returncode == 0 and ended.json["replay_would_give"]["outcome"] == "still-wrong"
    assert one_line(desk("edit", letter, "--set", "cube=2", "--why", "x"), 1) == (
        f"{letter} is no dead letter of ladder {desk.ladder}"
    )


def test_discard_asks_or_wants_to_be_told(desk: Desk) -> None:
    ids = desk.die(b"{", b"[", desk.match("m", cube=3))
    assert one_line(desk("discard", ids[0]), 2).startswith("--why: it is required")
    assert one_line(desk("discard", "--reason", "malformed", "--why", "noise"), 2).startswith("--yes: ")
    assert desk.redis.xlen(desk.keys.dead_letters) == 3
    ended = desk("discard", ids[0], "1-1", "--why", "noise", "--by", "mia")
    assert ended.returncode == 1 and ended.stdout == "discarded: 1\n"
    assert ended.stderr == f"match-ratings: 1-1: no such dead letter of ladder {desk.ladder}\n"
    ended = desk("discard", "--reason", "malformed", "--why", "noise", "--yes", "--json")
    assert ended.returncode == 0 and ended.json == {"discarded": 1, "missing": []}
    log = desk.redis.xrange(desk.keys.discarded)
    assert [fields[b"letter"].decode() for _, fields in log] == ids[:2]
    assert log[0][1][b"who"] == b"mia"


def test_export_and_import(desk: Desk, tmp_path: Path) -> None:
    desk.die(b"\xff{", desk.match("m", cube=3))
    file = tmp_path / "letters.jsonl"
    assert desk("export", "--output", str(file)).stderr == "dead letters exported: 2\n"
    assert desk("export").stdout == file.read_text()
    assert len(desk("export", "--reason", "malformed").stdout.splitlines()) == 1
    assert one_line(desk("export", "-o", str(file)), 2).startswith("--output: ")
    assert desk("import", str(file)).stdout == "dead letters restored: 0; still there: 2\n"
    desk("discard", "--all", "--why", "moved", "--yes")
    assert desk("import", str(file)).stdout == "dead letters restored: 2\n"
    assert desk("import", str(file), "--json").json == {"restored": 0, "before": 2, "there": 0}
    assert [row["message"] for row in desk("list", "--json").json_lines][1] != ""
    # And a file with a wrong line does nothing at all
    desk("discard", "--all", "--why", "moved", "--yes")
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(file.read_text().replace('"id": "', '"id": "9') + '{"ladder": "x"}\n')
    assert one_line(desk("import", str(wrong)), 2).startswith("FILE: line 3: ")
    assert desk.redis.xlen(desk.keys.dead_letters) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "x"], 'ID: "x" is not allowed; use an id from match-ratings dead-letters list'),
        (["list", "--after", "x"], 'ID: "x" is not allowed'),
        (["list", "--since", "soon"], '--since: "soon" is not allowed'),
        (["list", "--player", ""], '--player: "" is not allowed'),
        (["list", "--reason", "bad"], '--reason: "bad" is not allowed; use one of malformed'),
        (["replay"], "ID: say which are meant: ids, filters such as --reason, or --all"),
        (["discard", "--why", "x"], "ID: say which are meant"),
        (["replay", "--all", "1-1"], "--all: it makes no sense with ids"),
        (["replay", "--all", "--rate", "0"], '--rate: "0" is not allowed'),
        (["replay", "--all", "--never-rated", "x"], "--never-rated: it goes with --force-late"),
        (["replay", "--resume", "a b"], '--resume: "a b" is not allowed; a replay\'s name is'),
        (["replay", "--resume", "x", "--all"], "--resume: it makes no sense with"),
        (["edit", "1-1", "--set", "cube", "--why", "x"], '--set: "cube" is not allowed; use PATH=VALUE'),
        (["replay", "--all", "--by", "\x1b[31m"], r'--by: "\u001b[31m" is not allowed'),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(desk: Desk, arguments: list[str], sentence: str) -> None:
    if arguments[0] == "edit":
        arguments[1] = desk.die(b"{}")[0]
    assert one_line(desk(*arguments), 2).startswith(sentence)


@pytest.mark.parametrize("arguments", [["show", "1-1"], ["edit", "1-1", "--set", "a=1", "--why", "x"]])
def test_what_is_not_there_is_exit_code_1(desk: Desk, arguments: list[str]) -> None:
    assert one_line(desk(*arguments), 1) == f"1-1 is no dead letter of ladder {desk.ladder}"
    ended = desk("replay", "--resume", "nosuch")
    assert ended.returncode == 1 and 'there is no replay "nosuch"' in ended.stderr


def on_a_terminal(desk: Desk, *arguments: str, typed: bytes = b"", piped: bool = False) -> tuple[str, str]:
    """What a command shows on a terminal, and what it writes into the pipe that its output may go to."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    wanted = {"TERM": "xterm", "RATINGS_REDIS_URL": desk.url, "RATINGS_CONFIG": str(desk.config)}
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from match_ratings_worker.cli.app import main; main()",
            "dead-letters",
            *arguments,
        ],
        stdin=theirs,
        stdout=subprocess.PIPE if piped else theirs,
        stderr=theirs,
        env={**os.environ, **wanted},
    )
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side is closed
        while chunk := os.read(ours, 65536):
            shown += chunk
    os.close(ours)
    out, _ = process.communicate(timeout=20)
    return shown.decode(), (out or b"").decode()


def test_on_a_terminal_there_is_a_bar_and_a_question(desk: Desk, worker: Worker) -> None:
    desk.die(*[desk.match(f"m-{n}", cube=3) for n in range(30)])
    # A bar, which does not get into the output, wherever that goes
    shown, out = on_a_terminal(desk, "replay", "--all", "--rate", "60", "--verbose", "--json", piped=True)
    assert "Replaying" in shown and "still-wrong" not in shown
    assert [json.loads(line)["outcome"] for line in out.splitlines()[:-1]] == ["still-wrong"] * 30
    # A question, and the reason is asked for
    shown, _ = on_a_terminal(desk, "discard", "--all", "--why", "x", typed=b"n\n")
    assert "Discard 30 dead letters" in shown and desk.redis.xlen(desk.keys.dead_letters) == 30
    shown, _ = on_a_terminal(desk, "discard", "--all", typed=b"noise\ny\n")
    assert "Why" in shown and "discarded: 30" in shown
