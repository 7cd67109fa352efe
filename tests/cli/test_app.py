"""The command line as a whole: help, settings, wrong input, a Redis that is away, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE, until

Spawn = Callable[..., subprocess.Popen[bytes]]

#: Every command that talks to Redis, with right arguments.
COMMANDS = [
    ["worker"],
    ["leaderboard"],
    ["leaderboard", "--around", "ada"],
    ["player", "ada"],
    ["explain", "m-1"],
    ["status"],
    ["dead-letters", "list"],
    ["ladder", "show"],
    ["ladder", "diff"],
    ["close-period"],
    ["calibrate"],
    ["preview", "--player", "ada", "--opponent", "bob"],
]


def one_line(err: str) -> str:
    """The only line of standard error, without the program's name."""
    assert err.startswith("match-ratings: ") and err.count("\n") == 1 and err.endswith("\n"), err
    return err.removeprefix("match-ratings: ").rstrip("\n")


def test_help_names_every_command_and_the_exit_codes(call: Any) -> None:
    result = call("--help")
    assert result.code == 0 and not result.err
    names = ["worker", "submit", "leaderboard", "player", "explain", "status", "dead-letters"]
    assert all(f"\n  {name} " in result.out for name in names)
    assert "Exit codes: 0 done" in result.out


@pytest.mark.parametrize("command", sorted({words[0] for words in COMMANDS if len(words) < 3} | {"submit"}))
def test_each_command_has_help(call: Any, command: str) -> None:
    result = call(command, "--help")
    assert result.code == 0 and result.out.startswith(f"Usage: match-ratings {command}") and not result.err


@pytest.mark.parametrize("command", ["submit", "dead-letters replay", "period", "worker", "shadow clear"])
def test_help_names_arguments_without_types(call: Any, command: str) -> None:
    result = call(*command.split(), "--help")
    assert result.code == 0 and not set("<>{}") & set(result.out)


def test_the_help_starts_without_the_heavy_modules() -> None:
    code = (
        "import sys; from match_ratings_worker.cli.app import call; call(['--help']);"
        "sys.exit(any(name in sys.modules for name in ('redis', 'arq', 'pydantic', 'rich', 'match_ratings')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
    )


def test_version(call: Any) -> None:
    result = call("--version")
    assert result.code == 0 and result.out.startswith("match-ratings ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["leaderboard", "--top", "0"], '--top: "0" is not allowed; use a whole number from 1'),
        (["leaderboard", "--top", "ten"], '--top: "ten" is not allowed; use a whole number from 1'),
        (["leaderboard", "--around", ""], '--around: "" is not allowed; 1-128 characters'),
        (
            ["player", "ada", "--changes", "1001"],
            '--changes: "1001" is not allowed; use a whole number from 0 to',
        ),
        (["player", "a\tb"], r'PLAYER: "a\tb" is not allowed; 1-128 characters without control characters'),
        (["player", "x" * 129], "PLAYER: "),
        (["player", "\udcff"], r'PLAYER: "\udcff" is not allowed'),
        (["explain", "\x1b[31m"], r'MATCH: "\u001b[31m" is not allowed'),
        (["player"], "missing argument 'PLAYER' (see match-ratings player --help)"),
        (["player", "ada", "\x1b[31m"], r"got unexpected extra argument(s) (\x1b[31m)"),
        (
            ["dead-letters", "list", "--reason", "bad"],
            '--reason: "bad" is not allowed; use one of malformed,',
        ),
        (
            ["dead-letters", "list", "--limit", "-1"],
            '--limit: "-1" is not allowed; use a whole number from 0',
        ),
        (["submit", "/no/such/file"], 'FILE: "/no/such/file" cannot be read: No such file'),
        (["submit", "/"], 'FILE: "/" cannot be read: Is a directory'),
        (["submit", "x", "--skip-invalid", "--as-is"], "--skip-invalid: it makes no sense with --as-is"),
        (["leaderboard", "--ladder", "chess"], '--ladder: "chess" is not configured; use one of backgammon'),
        (["nosuch"], "no such command 'nosuch'"),
        (["--nosuch"], "no such option: --nosuch"),
    ],
)
def test_wrong_input_is_one_line_that_names_it_and_exit_code_2(
    call: Any, arguments: list[str], sentence: str
) -> None:
    result = call(*arguments)
    assert result.code == 2 and not result.out
    assert one_line(result.err).startswith(sentence)


@pytest.mark.parametrize("command", ["leaderboard", "status", "worker"])
@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("RATINGS_BATCH", "0", 'RATINGS_BATCH: "0" is not allowed'),
        ("RATINGS_CONFIG", "/no/such.toml", 'RATINGS_CONFIG: "/no/such.toml" cannot be read'),
        ("RATINGS_REDIS_URL", "http://u:secret@h/", "RATINGS_REDIS_URL: the value is not allowed"),
        ("RATINGS_REDIS_URL", "redis://u:sec/ret@h/", "RATINGS_REDIS_URL: the value is not allowed"),
        ("RATINGS_REDIS_URL", "redis://u:secret@h/?nosuch=1", "RATINGS_REDIS_URL: the value is not allowed"),
    ],
)
def test_wrong_settings_are_one_line_without_secrets_and_exit_code_2(
    call: Any, settings: pytest.MonkeyPatch, command: str, name: str, value: str, sentence: str
) -> None:
    settings.setenv(name, value)
    result = call(command)
    assert result.code == 2 and not result.out
    assert one_line(result.err).startswith(sentence)
    assert "sec" not in result.err and "ret" not in result.err.replace("secret", "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_redis_it_is_one_line_without_the_password_and_exit_code_3(
    call: Any, settings: pytest.MonkeyPatch, command: list[str]
) -> None:
    settings.setenv("RATINGS_REDIS_URL", "redis://user:secret@127.0.0.1:1/0")
    result = call(*command)
    assert result.code == 3 and not result.out
    assert one_line(result.err) == "Redis at 127.0.0.1:1 is not reachable: connection refused"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("unix:///no/such.sock", "Redis at /no/such.sock is not reachable: no such file or directory"),
        ("redis://[::1]:1/0", "Redis at [::1]:1 is not reachable: "),
    ],
)
def test_other_addresses_are_named_too(
    call: Any, settings: pytest.MonkeyPatch, url: str, sentence: str
) -> None:
    settings.setenv("RATINGS_REDIS_URL", url)
    result = call("status")
    assert result.code == 3
    assert one_line(result.err).startswith(sentence)


def test_a_refused_password_is_told_without_it(call: Any, site: Any, settings: pytest.MonkeyPatch) -> None:
    settings.setenv("RATINGS_REDIS_URL", site.url.replace("//", "//user:secret@"))
    result = call("status")
    assert result.code == 3
    assert "refuses the user or password" in one_line(result.err)
    assert "secret" not in result.err


def test_a_key_of_another_kind_is_one_line_and_exit_code_3(call: Any, site: Any) -> None:
    # Given: somebody wrote a string where the leaderboard belongs
    site.redis.set(site.keys.leaderboard, "x")
    result = call("leaderboard")
    assert result.code == 3
    assert "WRONGTYPE" in one_line(result.err)


def test_with_several_ladders_one_must_be_named(call: Any, site: Any) -> None:
    site.config.write_text("[ladders.backgammon]\n[ladders.blitz]\n")
    for command in (["leaderboard"], ["player", "ada"], ["explain", "m"], ["dead-letters", "list"]):
        result = call(*command)
        assert result.code == 2
        assert one_line(result.err) == (
            "--ladder: it is required with several ladders; use one of backgammon, blitz"
        )
        assert call(*command, "--ladder", "blitz").code in (0, 1)


def test_a_reader_that_goes_away_is_no_error(site: Any, spawn: Spawn) -> None:
    site.redis.zadd(site.keys.leaderboard, {f"player-{number}": number for number in range(5000)})
    process = spawn("leaderboard", "--top", "5000")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(b"rank")
    process.stdout.close()
    assert process.wait(10) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_an_output_that_takes_nothing_is_one_line(settings: pytest.MonkeyPatch, spawn: Spawn) -> None:
    with Path("/dev/full").open("wb") as full:
        process = spawn("--version", stdout=full)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert one_line(err.decode()) == "standard output: No space left on device"


def test_closed_streams_are_no_error(site: Any, spawn: Spawn) -> None:
    command = (
        f'exec "{sys.executable}" -c "from match_ratings_worker.cli import main; main()" status >&- 2>&- <&-'
    )
    assert subprocess.run(["/bin/sh", "-c", command], check=False, timeout=PATIENCE).returncode == 0
    command = (
        f'exec "{sys.executable}" -c "from match_ratings_worker.cli.app import main; main()" submit - <&-'
    )
    done = subprocess.run(["/bin/sh", "-c", command], check=False, timeout=10, capture_output=True, text=True)
    assert done.returncode == 2
    assert one_line(done.stderr) == "FILE: standard input is closed"


def test_an_encoding_without_the_letters_is_no_error(site: Any, spawn: Spawn) -> None:
    site.redis.zadd(site.keys.leaderboard, {"Zoë 🎲": 1500})
    process = spawn("leaderboard", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and not err
    assert rb"Zo\xeb \U0001f3b2" in out


def test_ctrl_c_ends_with_130_and_says_what_was_sent(site: Any, spawn: Spawn) -> None:
    # Given: submit has sent a match and waits for more on standard input
    process = spawn("submit", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(site.match("m-1")).encode() + b"\n")
    process.stdin.flush()
    until(lambda: site.redis.xlen(site.keys.inbox))
    # When: Ctrl-C
    process.send_signal(signal.SIGINT)
    # Then
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert re.match(r"interrupted; [01] messages are known to be sent; ", one_line(err.decode()))
