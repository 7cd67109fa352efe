"""Options that the dead-letters commands share: which letters, by whom and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from match_ratings import Reason
from match_ratings_worker.dead_letters import DeadLetterFilter
from match_ratings_worker.storage import is_stream_id
from match_ratings_worker.time_units import now_ms

from .change_options import signed_reason, user_name
from .exit_codes import CommandError, ExitCode, refuse
from .parameters import id_option, parse_time

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The dead letter's id.")]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the ladder.")]
OptionalWhyOption = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Why, for the record.")]


def _filter(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="These dead letters.")] = None,
    reasons: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="Only those with this reason; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only those that died from then on: a time, a day, or 2h."
        ),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Only those that died before then.")
    ] = None,
    player: Annotated[str | None, id_option("--player", help="Only those that name this player.")] = None,
    match_id: Annotated[
        str | None, id_option("--match", metavar="MATCH", help="Only those of this match or tournament.")
    ] = None,
) -> DeadLetterFilter:
    now = now_ms()
    return DeadLetterFilter(
        ids=tuple(dict.fromkeys(map(checked_letter_id, ids or ()))),
        reasons=frozenset(map(_checked_reason, reasons or ())),
        since=None if since is None else parse_time("--since", since, now),
        before=None if before is None else parse_time("--before", before, now),
        player=player,
        match_id=match_id,
    )


def with_filter_options(*, ids: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the filter options, and with `ids` the ids, to a command; it gets one DeadLetterFilter first."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        first, *own = _parameters(command)
        options = [option for option in _parameters(_filter) if ids or option.name != "ids"]

        @wraps(command)
        def filtered(**values: Any) -> None:
            where = _filter(**{option.name: values.pop(option.name) for option in options})
            command(**{first.name: where}, **values)

        filtered.__signature__ = Signature(options + own)  # type: ignore[attr-defined] # typer reads both
        filtered.__annotations__ = {item.name: item.annotation for item in options + own}
        return filtered

    return decorate


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """A function's parameters with their annotations evaluated."""
    types = get_type_hints(function, include_extras=True)
    return [item.replace(annotation=types[item.name]) for item in signature(function).parameters.values()]


def require_selection(where: DeadLetterFilter, *, every: bool) -> None:
    """End the command unless ids, filters or --all say which letters are meant."""
    if where.is_empty and not every:
        text = "ID: say which are meant: ids, filters such as --reason, or --all (see list)"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if every and where.ids:
        raise CommandError("--all: it makes no sense with ids", ExitCode.WRONG_INPUT)


def checked_letter_id(text: str) -> str:
    """The same id, if a dead letter could have it."""
    if not is_stream_id(text):
        refuse("ID", text, "use an id from match-ratings dead-letters list, such as 1700000000000-0")
    return text


def _checked_reason(text: str) -> str:
    try:
        return Reason(text).value
    except ValueError:
        refuse("--reason", text, f"use one of {', '.join(name.value for name in Reason)}")


def signed_by(by: str | None, why: str | None) -> tuple[str, str]:
    """Author and reason for the record; asks for the reason on a terminal."""
    author = by if by is not None else user_name()
    if why is None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise CommandError("--why: it is required; it is kept for the record", ExitCode.WRONG_INPUT)
        why = str(typer.prompt("Why", err=True))
    signed_reason(why, author)
    return author.strip(), why.strip()
