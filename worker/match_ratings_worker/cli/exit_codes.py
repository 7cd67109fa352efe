"""Exit codes, and the error that ends a command with one of them and a line of text."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NoReturn

from match_ratings_worker.safe_text import quote


class ExitCode(IntEnum):
    """The exit codes of every command."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        """A code, and its meaning for help and manual."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "not found, different or not done, or the output could not be written"
    WRONG_INPUT = 2, "wrong input or settings"
    UNAVAILABLE = 3, "Redis is not reachable or not usable"
    INTERRUPTED = 130, "interrupted"
    BROKEN_PIPE = 141, "the reader of the output went away"


#: The codes in one sentence, for the end of the help.
EXIT_CODES_HELP: Final = (
    f"Exit codes: {'; '.join(f'{code.value} {code.meaning}' for code in ExitCode)}. "
    "Errors are one line on standard error."
)


class CommandError(Exception):
    """Raised to end a command: one line for standard error, and the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def refuse(name: str, text: str, allowed: str) -> NoReturn:
    """Raise the CommandError for a value that an option or argument does not take."""
    raise CommandError(f"{name}: {quote(text)} is not allowed; {allowed}", ExitCode.WRONG_INPUT) from None
