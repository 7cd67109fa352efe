"""Names that other programs depend on: streams, queue, job, field.

Every key of a ladder carries the same hash tag, ``{ladder}``, so that one ladder lives in one slot
of a Redis Cluster and several ladders spread over its nodes.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "FIELD",
    "GROUP",
    "JOB",
    "LADDER_PATTERN",
    "MAX_MESSAGE_BYTES",
    "PREVIEW",
    "QUEUE",
    "SHADOW_GROUP",
    "dead_letters",
    "inbox",
    "leaderboard",
    "outbox",
    "scope",
]

#: The stream field that holds a message's JSON.
FIELD: Final = "message"
#: The consumer group of the rating workers on every inbox.
GROUP: Final = "raters"
#: The consumer group of workers that rate beside another rater, without being authoritative.
SHADOW_GROUP: Final = "shadow-raters"
#: The arq queue that a match server may use instead of the stream.
QUEUE: Final = "ratings:jobs"
#: The arq job that takes one finished match.
JOB: Final = "match_finished"
#: The arq job that answers what a match would change before it starts.
PREVIEW: Final = "preview"
#: The largest message that is rated, in bytes of UTF-8.
MAX_MESSAGE_BYTES: Final = 16 * 1024
#: What a ladder's name looks like: lower-case words joined by hyphens, 64 characters at most.
LADDER_PATTERN: Final = r"^[a-z0-9]+(-[a-z0-9]+)*$"

_LADDER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def scope(ladder: str, *, shadow: bool = False) -> str:
    """What all keys of a ladder, or of its shadow, begin with, without the colon that follows.

    Raises ValueError when the name is not a slug of at most 64 characters.
    """
    if len(ladder) > 64 or not _LADDER.fullmatch(ladder):
        msg = (
            f"ladder: {ladder[:80]!r} is not allowed; use 1-64 lower-case letters, digits and single hyphens"
        )
        raise ValueError(msg)
    return f"ratings:{{{ladder}}}:shadow" if shadow else f"ratings:{{{ladder}}}"


def inbox(ladder: str) -> str:
    """The stream that match servers write finished matches to; a shadow reads it too."""
    return f"{scope(ladder)}:match-finished"


def outbox(ladder: str, *, shadow: bool = False) -> str:
    """The stream of rating changes, which is also the ladder's ledger; or that of its shadow."""
    return f"{scope(ladder, shadow=shadow)}:rating-updated"


def dead_letters(ladder: str, *, shadow: bool = False) -> str:
    """The stream of messages that could not be rated."""
    return f"{scope(ladder, shadow=shadow)}:dead-letters"


def leaderboard(ladder: str, *, shadow: bool = False) -> str:
    """The sorted set of player -> rating."""
    return f"{scope(ladder, shadow=shadow)}:leaderboard"
