"""`dead-letters`: what could not be rated, and what can be done about it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from match_ratings_worker.cli.commands import dead_letters_edit as letters_change
from match_ratings_worker.cli.commands import dead_letters_replay as letters_replay
from match_ratings_worker.cli.commands import dead_letters_show as letters_show
from match_ratings_worker.cli.commands import dead_letters_transfer as letters_files
from match_ratings_worker.cli.console import Column, Sheet, fields, heading, moment, note, print_json
from match_ratings_worker.cli.dead_letter_options import (
    BeforeOption,
    MatchOption,
    PlayerOption,
    ReasonOption,
    SinceOption,
    carry_out,
    checked_letter,
    meant,
    setup_of,
)
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation, whole_number

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Filter
    from match_ratings_worker.queries import DeadLetterEntry

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="See, put right and replay what could not be rated.")

#: Dead letters that are printed at once.
_PAGE = 100
#: Bytes of a message that a table shows.
_SHOWN = 100


@app.callback()
def _group() -> None:
    """See, put right and replay what could not be rated."""


@app.command("list", short_help="Show what could not be rated, and why.")
def list_letters(
    reasons: ReasonOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    player: PlayerOption = None,
    match_id: MatchOption = None,
    counts: Annotated[bool, typer.Option("--counts", help="Only how many have each reason.")] = False,
    limit: Annotated[
        int,
        typer.Option(parser=whole_number("--limit", 0), metavar="N", help="At most so many; 0 for all."),
    ] = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after this one, on the next page.")
    ] = None,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the dead letters, newest first, with what is wrong and how the message begins.

    With --json the whole message: as text in `message`, or in `message_base64` if it is not UTF-8.
    """
    site = load_installation()
    setup = setup_of(site, ladder)
    where = meant(None, reasons, since, before, player, match_id)
    last = None if after is None else checked_letter(after)
    printer = _Printer(json=json)

    async def act(redis: Redis) -> None:
        from match_ratings_worker.dead_letters import Letters

        letters = Letters(redis, setup)
        if counts:
            _print_counts(await letters.reasons(where), where, json=json)
            return
        count = 0
        shown = ""
        async for letter in letters.find(where, before=last):
            if limit and count == limit:
                printer.flush()
                note(f"{count} shown, there are more; --after {shown} goes on, --limit 0 shows all")
                return
            count += 1
            shown = letter.id
            printer.add(letter)
        printer.flush()
        if not count:
            note(_none(where) if last is None else "there are no more")

    carry_out(site, act)


def _none(where: Filter) -> str:
    if where.all:
        return "there are no dead letters"
    return "there are no dead letters " + ("with this reason" if where.reasons else "of this kind")


def _print_counts(counts: Any, where: Filter, *, json: bool) -> None:
    if json:
        print_json({"dead_letters": counts.total(), "by_reason": dict(counts.most_common())})
        return
    if not counts:
        note(_none(where))
        return
    sheet = Sheet(Column("dead letters", right=True), Column("reason"))
    sheet.add((str(count), name) for name, count in counts.most_common())
    sheet.add([(str(counts.total()), "all")])


class _Printer:
    """Prints dead letters, some at once."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._page: list[DeadLetterEntry] = []
        self._sheet = Sheet(
            *(Column(title) for title in ("id", "dead since", "reason", "attempts", "detail", "message"))
        )

    def add(self, letter: DeadLetterEntry) -> None:
        """Takes the next one."""
        self._page.append(letter)
        if len(self._page) == _PAGE:
            self.flush()

    def flush(self) -> None:
        """Prints what is not printed yet."""
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
    return (
        letter.id,
        moment(letter.dead_at),
        letter.reason,
        str(letter.attempts),
        letter.detail,
        _beginning(letter.message),
    )


def _print_block(letter: DeadLetterEntry) -> None:
    heading(f"{letter.id}  {letter.reason}")
    times = f"{moment(letter.dead_at)}, first seen {moment(letter.first_seen)}, attempts {letter.attempts}"
    fields([("dead since", times), ("detail", letter.detail), ("message", _beginning(letter.message))])


def _beginning(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message)} bytes)" if len(message) > _SHOWN else "")


def _document(letter: DeadLetterEntry) -> dict[str, Any]:
    from match_ratings_worker.dead_letters.edit_history import entries, message_parts

    found = {**asdict(letter), "message": None, "message_base64": None}
    return {**found, **message_parts(letter.message), "history": entries(letter.history)}


app.command(short_help="Show one whole, what is wrong with it, and what would make it valid.")(
    letters_show.show
)
app.command(short_help="Have dead letters rated again.")(letters_replay.replay)
app.command(short_help="Put the message of a dead letter right.")(letters_change.edit)
app.command(short_help="Take dead letters out for good, with a reason.")(letters_change.discard)
app.command(short_help="Write dead letters as JSON lines.")(letters_files.export)
app.command("import", short_help="Put exported dead letters back.")(letters_files.import_letters)
