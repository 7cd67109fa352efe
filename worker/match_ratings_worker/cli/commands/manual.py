"""`manual`: the chapters of the manual, which are Markdown files in this package."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from typing import Annotated, Final

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table as RichTable

from match_ratings_worker.cli.configured_ladders import JsonOption
from match_ratings_worker.cli.console import Column, Table, print_json
from match_ratings_worker.cli.exit_codes import refuse

#: The chapters in reading order: names of files in `match_ratings_worker/manual`.
CHAPTERS: Final = (
    "running",
    "plugging-in",
    "events",
    "guarantees",
    "configuration",
    "bad-input",
    "command-line",
    "more-workers",
    "benchmarks",
    "dead-letters",
    "voids",
    "audit",
    "moving-over",
    "archive",
    "rating-systems",
    "changing-rules",
    "calculators",
    "tuning",
    "redis-keys",
    "security",
    "glossary",
    "reference-settings",
    "reference-ladders",
    "reference-messages",
    "reference-keys",
    "reference-metrics",
    "reference-jobs",
    "reference-codes",
)
_COMMENT: Final = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n?", re.DOTALL | re.MULTILINE)
#: A link from one chapter to another; of no use on a terminal.
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https:)[^)]+\)")
_TITLE: Final = re.compile(r"# ([^\n]+)\n\n(.+?[.:])(?:\s|$)", re.DOTALL)


def manual(
    chapter: Annotated[
        str | None, typer.Argument(metavar="CHAPTER", help="The chapter to print; all are listed without it.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print a chapter of the manual, or list the chapters.

    On a terminal a chapter is formatted; elsewhere it is the Markdown text. Works without Redis and settings.
    """
    if chapter is None:
        _list_chapters(as_json=json)
        return
    if chapter not in CHAPTERS:
        refuse("CHAPTER", chapter, f"use one of {', '.join(CHAPTERS)}")
    text = chapter_text(chapter)
    if json:
        print_json({"chapter": chapter, "markdown": text})
    elif sys.stdout.isatty():
        Console().print(_Chapter(_LINK.sub(r"\1", text)))
    else:
        print(text, end="")


def chapter_text(chapter: str) -> str:
    """Return a chapter's Markdown without comments, which are only for tests."""
    text = (files("match_ratings_worker") / "manual" / f"{chapter}.md").read_text(encoding="utf-8")
    return _COMMENT.sub("", text)


class _WholeWords(TableElement):
    """A table that never cuts a name off: columns of single words are as wide as their words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, RichTable) else ():
                column.overflow = "fold"
                column.no_wrap = not any(" " in str(cell) for cell in column.cells)
            yield part


class _Chapter(Markdown):
    elements = {**Markdown.elements, "table_open": _WholeWords}


def _list_chapters(*, as_json: bool) -> None:
    rows = []
    for chapter in CHAPTERS:
        found = _TITLE.match(chapter_text(chapter))
        rows.append(
            (chapter, *(" ".join(part.split()) for part in found.groups())) if found else (chapter, "", "")
        )
    if as_json:
        for name, title, summary in rows:
            print_json({"chapter": name, "title": title, "summary": summary})
        return
    sheet = Table(Column("chapter"), Column("what it is about"))
    sheet.add((name, summary) for name, _, summary in rows)
