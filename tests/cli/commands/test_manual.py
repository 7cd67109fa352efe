"""`match-ratings manual`."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from match_ratings_worker.cli.app import call
from match_ratings_worker.cli.commands.manual import CHAPTERS, chapter_text


@pytest.fixture(autouse=True)
def broken_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATINGS_CONFIG", "nowhere.toml")
    monkeypatch.setenv("RATINGS_REDIS_URL", "redis://127.0.0.1:1/0")


def test_the_chapters_are_the_files() -> None:
    names = {path.name for path in (files("match_ratings_worker") / "manual").iterdir() if path.is_file()}
    assert names == {f"{chapter}.md" for chapter in CHAPTERS}


def test_it_lists_the_chapters(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["manual"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(CHAPTERS)
    assert all(len(row.split()) > 3 for row in rows)  # each with a summary


def test_it_lists_them_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["manual", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["chapter"] for line in lines] == list(CHAPTERS)
    assert all(line["title"] and line["summary"] for line in lines)


def test_it_prints_markdown_where_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["manual", "glossary"]) == 0
    printed = capsys.readouterr().out
    assert printed == chapter_text("glossary")
    assert printed.startswith("# ") and "<!--" not in printed and "\x1b" not in printed


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_it_formats_on_a_terminal(
    chapter: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert call(["manual", chapter]) == 0
    printed = capsys.readouterr().out
    title = chapter_text(chapter).splitlines()[0].removeprefix("# ")
    assert title in printed and f"# {title}" not in printed
    # No name is cut off, and no mark-up is left
    assert "…" not in printed
    assert not re.search(r"```|\| --- \||\.md\b|<!--", printed)


def test_an_unknown_chapter_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["manual", "recipes"]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith(
        'match-ratings: CHAPTER: "recipes" is not allowed; use one of running, '
    )
    assert len(err.splitlines()) == 1
