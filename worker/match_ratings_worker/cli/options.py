"""What the commands that correct something share: who and why, times, and asking before they do it."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final

import typer

from match_ratings_worker.cli.installation import WRONG_INPUT, CommandError
from match_ratings_worker.text import quote
from match_ratings_worker.units import DAY_MS

__all__ = ["WhoOption", "WhyOption", "YesOption", "ask", "reason", "time_of", "user_name"]

#: Characters of a reason, with who gives it, at most: those of a message's `why`.
_LONGEST: Final = 500
_UNITS: Final = {"min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * DAY_MS}

WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for the ledger.")]
WhoOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who you are; your user name by default.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def reason(why: str, who: str | None) -> str:
    """The reason as it is kept, with who gives it."""

    by = who if who is not None else user_name()
    text = f"{why.strip()} ({by.strip()})"
    for name, value in (("--why", why), ("--by", by)):
        if not value.strip() or not value.isprintable() or len(text) > _LONGEST:
            allowed = f"printable characters are, {_LONGEST} at most with both"
            raise CommandError(f"{name}: {quote(value)} is not allowed; {allowed}", WRONG_INPUT)
    return text


def ask(question: str) -> None:
    """Returns when somebody at the terminal agrees; else the command ends."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("--yes: it is required where nobody can be asked", WRONG_INPUT)
    typer.confirm(question, abort=True, err=True)


def time_of(name: str, text: str, now: int) -> int:
    """An option's time in ms: RFC 3339 with an offset, a day (UTC), or how long before `now` (ms): 7d."""
    from match_ratings.messages import milliseconds

    if ago := re.fullmatch(r"([0-9]{1,6})(min|h|d|w)", text):
        return max(now - int(ago[1]) * _UNITS[ago[2]], 0)
    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else text
    try:
        return milliseconds(whole)
    except ValueError:
        allowed = "a time such as 2026-11-29T12:00:00Z, a day such as 2026-11-29 (UTC), or 30min, 12h, 7d, 2w"
        raise CommandError(f"{name}: {quote(text)} is not allowed; use {allowed}", WRONG_INPUT) from None


def user_name() -> str:
    """Who sits here: the user and the machine."""
    from getpass import getuser
    from socket import gethostname

    try:
        return f"{getuser()}@{gethostname()}"
    except (KeyError, OSError):
        return gethostname()
