"""submit: what is sent, what is refused, and that nothing is sent when a line of a file is wrong."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded import Server
from match_ratings_worker.text_lines import LONGEST_LINE, line_batches
from tests.support.clock import now_ms
from tests.support.waiting import PATIENCE, until, until_at_rest


def lines(*messages: Any) -> bytes:
    return b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages)


def inbox(site: Any) -> list[bytes]:
    return [fields[b"message"] for _, fields in site.redis.xrange(site.keys.inbox)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "matches.jsonl"


def test_a_file_is_sent_line_by_line_as_it_is(call: Any, site: Any, file: Path) -> None:
    # Given: matches with odd spacing, an unknown field, a byte order mark, empty lines and Windows ends
    first = b'{ "x": 1, ' + json.dumps(site.match("m-1")).encode()[1:]
    prize = {"type": "tournament-finished", "tournament_id": "t-1", "ladder": site.ladder, "public": True}
    prize |= {"podium": ["ada"], "finished_at": site.match("")["finished_at"]}
    last = json.dumps(site.match("Zoë 🎲"), ensure_ascii=False).encode()
    file.write_bytes(b"\xef\xbb\xbf" + first + b"\r\n\n  \n" + lines(prize) + last)
    # When
    result = call("submit", str(file))
    # Then
    assert (result.code, result.err) == (0, "")
    assert result.out == f"messages sent: 3 to {site.ladder}\n"
    assert inbox(site) == [first, lines(prize)[:-1], last]


def test_a_file_can_be_sent_again(call: Any, site: Any, file: Path) -> None:
    file.write_bytes(lines(site.match("m-1"), site.match("m-2")))
    for _ in range(2):
        assert call("submit", str(file), "--json").json == {
            "sent": 2,
            "skipped": 0,
            "ladders": {site.ladder: 2},
        }
        site.rate()
    assert site.redis.hgetall(site.keys.counts) == {b"rated": b"2", b"duplicate": b"2"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"cube": 3}, "cube: 3 is not allowed: must be one of 1, 2, 4, 8, 16, 32, 64"),
    ({"winner": "eve"}, 'winner: "eve" is not allowed: must be one of the players, or null for a draw'),
    (
        {"players": ["ada", "ada"]},
        'players: ["ada", "ada"] is not allowed; a match has two different players',
    ),
    ({"finished_at": 1_795_998_475}, "finished_at: 1795998475 is not allowed: looks like seconds"),
    ({"finished_at": 1_500_000_000_000}, "finished_at: 1500000000000 is "),
    ({"finished_at": 9_500_000_000_000}, "finished_at: 9500000000000 is "),
    ({"ladder": "nosuch"}, 'ladder: "nosuch" is not configured; use one of t-'),
    ({"ladder": None}, "ladder: null is not allowed"),
    ({"version": 2}, "version: 2 is newer than this worker knows"),
    ({"match_id": "\x1b[31m"}, r'match_id: "\u001b[31m" is not allowed'),
]


@pytest.mark.parametrize(("wrong", "sentence"), WRONG, ids=[next(iter(item[0])) for item in WRONG])
def test_a_wrong_line_is_one_sentence_with_its_number_and_nothing_is_sent(
    call: Any, site: Any, file: Path, wrong: dict[str, Any], sentence: str
) -> None:
    file.write_bytes(lines(site.match("m-1"), b"\n", site.match("m-2", **wrong), site.match("m-3")))
    result = call("submit", str(file))
    assert result.code == 2 and not result.out
    assert result.err.startswith(f"match-ratings: line 3: {sentence}") and result.err.isascii()
    assert result.err.endswith("; nothing was sent\n") and result.err.count("\n") == 1
    assert inbox(site) == []


def test_many_wrong_lines_are_told_apart_and_not_all_of_them(call: Any, site: Any, file: Path) -> None:
    file.write_bytes(lines(site.match("m-1"), *[b"no json\n"] * 30))
    result = call("submit", str(file))
    told = result.err.splitlines()
    assert result.code == 2 and len(told) == 21
    assert told[0].startswith("line 2: message: not JSON in UTF-8: expected ident at line 1")
    assert told[-1] == "match-ratings: FILE: 30 of 31 lines are wrong; nothing was sent"
    assert inbox(site) == []


def test_skip_invalid_reports_wrong_lines_and_sends_the_others(call: Any, site: Any, file: Path) -> None:
    file.write_bytes(
        lines(site.match("m-1"), b"\xff\x1b\n", b"x" * (LONGEST_LINE + 1) + b"\n", site.match("m-2"))
    )
    result = call("submit", str(file), "--skip-invalid")
    assert result.code == 0
    assert result.out == f"messages sent: 2 to {site.ladder}; wrong lines skipped: 2\n"
    assert [line.partition(": ")[0] for line in result.err.splitlines()] == ["line 2", "line 3"]
    assert len(inbox(site)) == 2


def test_standard_input_is_sent_up_to_the_first_wrong_line(call: Any, site: Any) -> None:
    result = call("submit", "-", stdin=lines(site.match("m-1"), b"[]\n", site.match("m-2")))
    assert result.code == 2
    assert result.err == (
        "match-ratings: line 2: message: [] is not a JSON object; the 1 messages before it were sent\n"
    )
    assert len(inbox(site)) == 1


def test_as_is_sends_everything_to_one_ladder_where_it_becomes_dead_letters(call: Any, site: Any) -> None:
    wrong = [b"\xff\x1b", json.dumps(site.match("m-1", ladder="other")).encode()]
    result = call("submit", "-", "--as-is", stdin=b"\n".join(wrong))
    assert (result.code, result.err) == (0, "")
    assert inbox(site) == wrong
    site.rate()
    assert [letter["reason"] for letter in call("dead-letters", "list", "--json").json_lines] == [
        "wrong-ladder",
        "malformed",
    ]


def test_each_message_goes_to_the_ladder_that_it_names(call: Any, site: Any) -> None:
    other = f"{site.ladder}-b"
    site.config.write_text(f"[ladders.{site.ladder}]\n[ladders.{other}]\n")
    both = lines(site.match("m-1"), site.match("m-2", ladder=other), site.match("m-3"))
    assert call("submit", "-", "--json", stdin=both).json["ladders"] == {site.ladder: 2, other: 1}
    # When one is named, a message for the other is wrong
    result = call("submit", "-", "--ladder", site.ladder, stdin=both)
    assert result.code == 2
    assert "line 2: ladder: " in result.err and "send it to its own" in result.err


def test_voids_are_sent_too(call: Any, site: Any) -> None:
    void = {"type": "match-voided", "match_id": "m-1", "ladder": site.ladder, "players": ["ada", "bob"]}
    void["finished_at"] = site.match("")["finished_at"]
    assert call("submit", "-", stdin=lines({**void, "why": "cheat"})).code == 0
    result = call("submit", "-", stdin=lines(void))
    assert result.code == 2 and "line 1: why: it is required; nothing was sent" in result.err


def test_nothing_to_send_is_no_error(call: Any, site: Any, file: Path) -> None:
    file.touch()
    assert call("submit", str(file)) == (0, "messages sent: 0\n", "")


def test_without_redis_it_says_what_is_known_to_be_sent(
    call: Any, settings: pytest.MonkeyPatch, file: Path
) -> None:
    file.touch()
    settings.setenv("RATINGS_REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    result = call("submit", str(file))
    assert result.code == 3
    assert result.err == (
        "match-ratings: Redis at 127.0.0.1:1 is not reachable: connection refused; "
        "0 messages are known to be sent; sending them again does no harm\n"
    )


def test_a_redis_that_goes_away_in_the_middle(
    own_server: Server, settings: pytest.MonkeyPatch, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    # Given: one match is sent, then the server dies
    now = now_ms()
    match = {"ladder": "backgammon", "players": ["ada", "bob"], "winner": "ada", "finished_at": now}
    environment = {**os.environ, "RATINGS_REDIS_URL": own_server.url}
    process = spawn("submit", "-", stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(lines({**match, "match_id": "m-1"}))
    process.stdin.flush()
    with own_server.client() as client:
        until(lambda: client.xlen("ratings:{backgammon}:match-finished"))
        # and submit has read the reply: it waits for its input again
        until_at_rest(process.pid)
    own_server.kill()
    # When: more comes
    _, err = process.communicate(lines({**match, "match_id": "m-2"}), timeout=PATIENCE)
    # Then
    assert process.returncode == 3
    assert re.fullmatch(
        rb"match-ratings: Redis at \S+ is not reachable: .+; 1 messages are known to be sent; .+\n", err
    )


class Slow(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._step)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100, LONGEST_LINE])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_lines_are_the_same_however_they_arrive(step: int, end: bytes) -> None:
    data = b"one\n\n  \r\n\xe2\x80\xa8two\r\nthree" + end
    found = [line for batch in line_batches(Slow(data, step)) for line in batch.lines]
    assert found == [(1, b"one"), (4, b"\xe2\x80\xa8two"), (5, b"three")]


def test_a_line_without_end_takes_no_more_memory_than_the_longest_allowed() -> None:
    data = b"x" * (5 * LONGEST_LINE) + b"\nshort\n" + b"y" * (2 * LONGEST_LINE)
    found = [line for batch in line_batches(io.BytesIO(data)) for line in batch.lines]
    assert found == [(1, None), (2, b"short"), (3, None)]
