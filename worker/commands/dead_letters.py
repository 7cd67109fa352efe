"""`dead-letters`: what could not be rated."""

from __future__ import annotations

import base64
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.commands.common import WRONG_INPUT, Fault, JsonOption, LadderOption, load_site, whole_number
from worker.commands.output import Column, Sheet, fields, heading, moment, note, print_json
from worker.commands.server import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from worker.queries import Letter

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Look at what could not be rated.")

#: Dead letters that are printed at once.
_PAGE = 100
#: Bytes of a message that a table shows.
_SHOWN = 100


@app.callback()
def _group() -> None:
    """Look at what could not be rated."""


@app.command("list", short_help="Show what could not be rated, and why.")
def list_letters(
    reasons: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="Only those with this reason; may be repeated."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(parser=whole_number("--limit", 0), metavar="N", help="At most so many; 0 for all."),
    ] = 20,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the dead letters, newest first, with what is wrong and how the message begins.

    With --json the whole message: as text in `message`, or in `message_base64` if it is not UTF-8.
    """
    site = load_site()
    _, keys = site.named(ladder)
    wanted = [_reason(reason) for reason in reasons or ()]
    sheet = Sheet(
        *(Column(title) for title in ("id", "dead since", "reason", "attempts", "detail", "message"))
    )

    def show(found: list[Letter]) -> None:
        if json:
            for letter in found:
                print_json(_document(letter))
        elif sys.stdout.isatty():
            for letter in found:
                _print_block(letter)
        else:
            sheet.add(_row(letter) for letter in found)
        found.clear()

    async def act(redis: Redis) -> None:
        from worker import queries

        count = 0
        page: list[Letter] = []
        async for letter in queries.letters(redis, keys, wanted):
            if limit and count == limit:
                show(page)
                note(f"{count} shown, there are more; --limit 0 shows all")
                return
            count += 1
            page.append(letter)
            if len(page) == _PAGE:
                show(page)
        if page:
            show(page)
        if not count:
            note("there are no dead letters" + (" with this reason" if wanted else ""))

    run(site.settings.redis_url, act)


def _reason(text: str) -> str:
    from contracts import Reason
    from worker.validation import quote

    try:
        return Reason(text).value
    except ValueError:
        allowed = ", ".join(reason.value for reason in Reason)
        raise Fault(f"--reason: {quote(text)} is not allowed; use one of {allowed}", WRONG_INPUT) from None


def _row(letter: Letter) -> tuple[str, ...]:
    return (
        letter.id,
        moment(letter.dead_at),
        letter.reason,
        str(letter.attempts),
        letter.detail,
        _beginning(letter.message),
    )


def _print_block(letter: Letter) -> None:
    heading(f"{letter.id}  {letter.reason}")
    times = f"{moment(letter.dead_at)}, first seen {moment(letter.first_seen)}, attempts {letter.attempts}"
    fields([("dead since", times), ("detail", letter.detail), ("message", _beginning(letter.message))])


def _beginning(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message)} bytes)" if len(message) > _SHOWN else "")


def _document(letter: Letter) -> dict[str, Any]:
    found = {**asdict(letter), "message": None, "message_base64": None}
    try:
        found["message"] = letter.message.decode()
    except UnicodeDecodeError:
        found["message_base64"] = base64.b64encode(letter.message).decode()
    return found
