"""What the dead-letters commands share: which letters are meant, who and why, and how they are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from match_ratings_worker.cli.installation import (
    UNAVAILABLE,
    WRONG_INPUT,
    CommandError,
    Installation,
    checked_id,
)
from match_ratings_worker.cli.options import reason, time_of, user_name
from match_ratings_worker.cli.redis_errors import run
from match_ratings_worker.storage.stream_ids import is_stream_id
from match_ratings_worker.text import quote
from match_ratings_worker.units import now_ms

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Filter, Setup

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


def setup_of(site: Installation, ladder: str | None) -> Setup:
    """The ladder and this installation's settings for it."""
    from match_ratings_worker.dead_letters import Setup

    return Setup.of(site.settings, site.ladder(ladder))


def carry_out(site: Installation, act: Callable[[Redis], Awaitable[T]]) -> T:
    """Runs `act` with a connection; an archive that cannot be read is a fault too."""
    from match_ratings_worker.ledger.sqlite_archive import ArchiveError

    try:
        return run(site.settings.redis_url, act)
    except ArchiveError as error:
        raise CommandError(str(error), UNAVAILABLE) from None


def meant(
    ids: Sequence[str] | None,
    reasons: Sequence[str] | None,
    since: str | None,
    before: str | None,
    player: str | None,
    match_id: str | None,
) -> Filter:
    """The letters that the command line names."""
    from match_ratings_worker.dead_letters import Filter

    now = now_ms()
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
        raise CommandError(text, WRONG_INPUT)
    if every and where.ids:
        raise CommandError("--all: it makes no sense with ids", WRONG_INPUT)
    return where


def checked_letter(text: str) -> str:
    """A dead letter's id from the command line."""

    if not is_stream_id(text):
        allowed = "use an id from match-ratings dead-letters list, such as 1700000000000-0"
        raise CommandError(f"ID: {quote(text)} is not allowed; {allowed}", WRONG_INPUT)
    return text


def _reason(text: str) -> str:
    from match_ratings import Reason

    try:
        return Reason(text).value
    except ValueError:
        allowed = ", ".join(name.value for name in Reason)
        raise CommandError(
            f"--reason: {quote(text)} is not allowed; use one of {allowed}", WRONG_INPUT
        ) from None


def who_and_why(who: str | None, why: str | None) -> tuple[str, str]:
    """Who does it, and why; the reason is asked for where somebody can be."""
    by = who if who is not None else user_name()
    if why is None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise CommandError("--why: it is required; it is kept for the record", WRONG_INPUT)
        why = str(typer.prompt("Why", err=True))
    reason(why, by)
    return by.strip(), why.strip()
