"""What the dead-letters commands share: which letters are meant, who and why, and how they are shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from worker.commands.common import UNAVAILABLE, WRONG_INPUT, Fault, Site, checked_id
from worker.commands.options import reason, time_of, user_name
from worker.commands.server import run

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from redis.asyncio import Redis

    from worker.letters import Filter, Setup

__all__ = [
    "AllOption",
    "BeforeOption",
    "IdArgument",
    "IdsArgument",
    "MatchOption",
    "PlayerOption",
    "ReasonOption",
    "SinceOption",
    "WhyOption",
    "carry_out",
    "checked_letter",
    "meant",
    "setup_of",
    "some_meant",
    "who_and_why",
]

T = TypeVar("T")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The dead letter's id.")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="These dead letters.")]
ReasonOption = Annotated[
    list[str] | None,
    typer.Option("--reason", metavar="REASON", help="Only those with this reason; may be repeated."),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only those that died from then on: a time, a day, or 2h."),
]
BeforeOption = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Only those that died before then.")
]
PlayerOption = Annotated[
    str | None, typer.Option("--player", metavar="PLAYER", help="Only those that name this player.")
]
MatchOption = Annotated[
    str | None, typer.Option("--match", metavar="MATCH", help="Only those of this match or tournament.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the ladder.")]
WhyOption = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Why, for the record.")]


def setup_of(site: Site, ladder: str | None) -> Setup:
    """The ladder and this installation's settings for it."""
    from worker.letters import Setup

    return Setup.of(site.settings, site.ladder(ladder))


def carry_out(site: Site, act: Callable[[Redis], Awaitable[T]]) -> T:
    """Runs `act` with a connection; an archive that cannot be read is a fault too."""
    from worker.archive import ArchiveError

    try:
        return run(site.settings.redis_url, act)
    except ArchiveError as error:
        raise Fault(str(error), UNAVAILABLE) from None


def meant(
    ids: Sequence[str] | None,
    reasons: Sequence[str] | None,
    since: str | None,
    before: str | None,
    player: str | None,
    match_id: str | None,
) -> Filter:
    """The letters that the command line names."""
    from worker.letters import Filter

    now = int(time.time() * 1000)
    return Filter(
        ids=tuple(dict.fromkeys(checked_letter(letter_id) for letter_id in ids or ())),
        reasons=frozenset(_reason(name) for name in reasons or ()),
        since=None if since is None else time_of("--since", since, now),
        before=None if before is None else time_of("--before", before, now),
        player=None if player is None else checked_id("--player", player),
        match_id=None if match_id is None else checked_id("--match", match_id),
    )


def some_meant(where: Filter, *, every: bool) -> Filter:
    """The same, if the command line says which are meant."""
    if where.all and not every:
        text = "ID: say which are meant: ids, filters such as --reason, or --all (see list)"
        raise Fault(text, WRONG_INPUT)
    if every and where.ids:
        raise Fault("--all: it makes no sense with ids", WRONG_INPUT)
    return where


def checked_letter(text: str) -> str:
    """A dead letter's id from the command line."""
    from worker.letters.selection import is_stream_id
    from worker.validation import quote

    if not is_stream_id(text):
        allowed = "use an id from match-ratings dead-letters list, such as 1700000000000-0"
        raise Fault(f"ID: {quote(text)} is not allowed; {allowed}", WRONG_INPUT)
    return text


def _reason(text: str) -> str:
    from contracts import Reason
    from worker.validation import quote

    try:
        return Reason(text).value
    except ValueError:
        allowed = ", ".join(name.value for name in Reason)
        raise Fault(f"--reason: {quote(text)} is not allowed; use one of {allowed}", WRONG_INPUT) from None


def who_and_why(who: str | None, why: str | None) -> tuple[str, str]:
    """Who does it, and why; the reason is asked for where somebody can be."""
    by = who if who is not None else user_name()
    if why is None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise Fault("--why: it is required; it is kept for the record", WRONG_INPUT)
        why = str(typer.prompt("Why", err=True))
    reason(why, by)
    return by.strip(), why.strip()
