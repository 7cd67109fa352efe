"""`dead-letters list`: the messages that could not be rated, or their number by reason."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any

import typer

from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_time,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.dead_letter_options import checked_letter_id, with_filter_options
from match_ratings_worker.cli.parameters import integer_option
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.dead_letters import DeadLetterFilter, DeadLetterStore
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle, history_items, message_fields

#: Dead letters printed at once.
_PAGE = 100
#: Bytes of a message that a table shows.
_SHOWN = 100


@with_filter_options(ids=False)
def list_dead_letters(
    where: DeadLetterFilter,
    counts: Annotated[bool, typer.Option("--counts", help="Only the number of each reason.")] = False,
    limit: Annotated[int, integer_option("--limit", 0, help="At most N; 0 for all.")] = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after this one, on the next page.")
    ] = None,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the dead letters, newest first, with what is wrong and how the message begins.

    With --json the whole message: as text in `message`, or in `message_base64` if it is not UTF-8.
    """
    last = None if after is None else checked_letter_id(after)
    printer = _Printer(json=json)

    async def act(handle: LadderHandle) -> None:
        letters = DeadLetterStore(handle)
        if counts:
            _print_counts(await letters.count_by_reason(where), where, json=json)
            return
        count, shown = 0, ""
        async for letter in letters.find(where, before=last):
            if limit and count == limit:
                printer.flush()
                print_note(f"{count} shown, there are more; --after {shown} goes on, --limit 0 shows all")
                return
            count, shown = count + 1, letter.id
            printer.add(letter)
        printer.flush()
        if not count:
            print_note(_none(where) if last is None else "there are no more")

    run_on_ladder(load_installation(), ladder, act)


def _none(where: DeadLetterFilter) -> str:
    if where.is_empty:
        return "there are no dead letters"
    return "there are no dead letters " + ("with this reason" if where.reasons else "of this kind")


def _print_counts(counts: Counter[str], where: DeadLetterFilter, *, json: bool) -> None:
    if json:
        print_json({"dead_letters": counts.total(), "by_reason": dict(counts.most_common())})
        return
    if not counts:
        print_note(_none(where))
        return
    sheet = Table(Column("dead letters", right=True), Column("reason"))
    sheet.add((str(count), name) for name, count in counts.most_common())
    sheet.add([(str(counts.total()), "all")])


class _Printer:
    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._page: list[DeadLetterEntry] = []
        titles = ("id", "dead since", "reason", "attempts", "detail", "message")
        self._sheet = Table(*map(Column, titles))

    def add(self, letter: DeadLetterEntry) -> None:
        """Add the next letter and print the page when it is full."""
        self._page.append(letter)
        if len(self._page) == _PAGE:
            self.flush()

    def flush(self) -> None:
        """Print the letters that are not printed yet."""
        if not self._page:
            return
        if self._json:
            for letter in self._page:
                print_json(_document(letter))
        elif sys.stdout.isatty():
            for letter in self._page:
                _print_block(letter)
        else:
            self._sheet.add(_row(letter) for letter in self._page)
        self._page.clear()


def _row(letter: DeadLetterEntry) -> tuple[str, ...]:
    died, begin = format_time(letter.dead_at), _beginning(letter.message)
    return letter.id, died, letter.reason, str(letter.attempts), letter.detail, begin


def _print_block(letter: DeadLetterEntry) -> None:
    print_heading(f"{letter.id}  {letter.reason}")
    died, first = format_time(letter.dead_at), format_time(letter.first_seen)
    times = f"{died}, first seen {first}, attempts {letter.attempts}"
    print_fields([("dead since", times), ("detail", letter.detail), ("message", _beginning(letter.message))])


def _beginning(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message)} bytes)" if len(message) > _SHOWN else "")


def _document(letter: DeadLetterEntry) -> dict[str, Any]:
    found = {**asdict(letter), "message": None, "message_base64": None}
    return {**found, **message_fields(letter.message), "history": history_items(letter.history)}
