"""Options of the commands that change something: by whom, why, and whether to ask first."""

from __future__ import annotations

import sys
from getpass import getuser
from socket import gethostname
from typing import Annotated, Final

import typer

from .exit_codes import CommandError, ExitCode, refuse

#: Characters of a reason and its author, at most: the limit of a message's `why`.
_LONGEST: Final = 500

WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for the ledger.")]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who you are; your user name by default.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def signed_reason(why: str, who: str | None) -> str:
    """The reason and its author as one text, for the ledger."""
    by = who if who is not None else user_name()
    text = f"{why.strip()} ({by.strip()})"
    for name, value in (("--why", why), ("--by", by)):
        if not value.strip() or not value.isprintable() or len(text) > _LONGEST:
            refuse(name, value, f"printable characters are, {_LONGEST} at most with both")
    return text


def confirm(question: str) -> None:
    """Ask at the terminal; end the command unless the answer is yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("--yes: it is required where nobody can be asked", ExitCode.WRONG_INPUT)
    typer.confirm(question, abort=True, err=True)


def user_name() -> str:
    """The user and the machine, such as anna@host."""
    try:
        return f"{getuser()}@{gethostname()}"
    except (KeyError, OSError):
        return gethostname()
