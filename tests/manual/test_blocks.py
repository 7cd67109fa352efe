"""Every block of the README and of the manual does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from embedded import Server
from match_ratings_worker.cli.app import app, call
from match_ratings_worker.cli.commands.manual import CHAPTERS
from tests.support.document_session import LANGUAGES, ROOT, Session, blocks, directive

MANUAL = ROOT / "worker" / "match_ratings_worker" / "manual"
DOCUMENTS = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]
DOCUMENTS += [MANUAL / f"{chapter}.md" for chapter in CHAPTERS]
#: Those with something to run.
LIVE = [
    path for path in DOCUMENTS if any(language in ("console", "sh", "python") for language, _ in blocks(path))
]

by_name = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)


@pytest.mark.slow
@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_every_block_runs_and_prints_what_is_shown(path: Path, tmp_path: Path, own_server: Server) -> None:
    with Session.open(tmp_path, own_server.url) as session:
        for language, example in blocks(path):
            example.namespace["session"] = session
            try:
                example.evaluate()
            except AssertionError as error:
                pytest.fail(f"{path.name}:{example.line} ({language}): {error}")


@by_name
def test_every_block_is_in_a_language_that_is_tested(path: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences[::2]) <= set(LANGUAGES)
    assert set(fences[1::2]) <= {""}
    skipped = [directive(example) for _, example in blocks(path) if directive(example).startswith("skip")]
    assert all(re.match(r"skip, .{10}", reason) for reason in skipped)


@by_name
def test_drawings_hold_nothing_that_ends_a_statement_by_itself(path: Path) -> None:
    drawings = [str(example.parsed) for language, example in blocks(path) if language == "mermaid"]
    assert not [drawing for drawing in drawings if ";" in drawing]


@by_name
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_the_chapter_on_the_command_line_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = (MANUAL / "command-line.md").read_text(encoding="utf-8")
    assert call(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    commands = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
    named = set(re.findall(r"`([a-z-]+)`", text.partition("| command |")[2].partition("\n\n")[0]))
    assert named == set(commands)
    shown = re.findall(r"^match-ratings ([a-z-]+)", text, re.MULTILINE)
    assert set(shown) <= named


def options(command: Any) -> Iterator[str]:
    context = command.make_context("match-ratings", [], resilient_parsing=True)
    for parameter in command.get_params(context):
        yield from parameter.opts
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from options(command.get_command(context, name))


def test_every_option_that_is_named_is_one() -> None:
    known = {*options(get_command(app)), "--fast", "--quick", "--parts"}  # the last are those of scripts
    for path in DOCUMENTS:
        text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known, path.name


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.slow
def test_python_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    # Given each Python block as a program of its own, checked as a reader's project would be: without plugins
    for path in DOCUMENTS:
        for number, (language, example) in enumerate(blocks(path)):
            if language == "python" and not directive(example).startswith("skip"):
                name = f"{path.stem}_{number}".replace("-", "_").lower()
                (tmp_path / f"{name}.py").write_text(str(example.parsed))
    assert len(list(tmp_path.glob("*.py"))) >= 5
    # When mypy looks at them
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}/cache", "."],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Then it has nothing to say
    assert done.returncode == 0, done.stdout + done.stderr
