"""Ids of stream entries, `<ms>-<sequence>`: parsed, compared, and read as times."""

from __future__ import annotations

import re
from typing import Final

_MAX: Final = 2**64 - 1
#: The greatest id that Redis allows.
MAX_STREAM_ID: Final = f"{_MAX}-{_MAX}"

_STREAM_ID: Final = re.compile(r"([0-9]{1,20})-([0-9]{1,20})", re.ASCII)


def is_stream_id(text: str) -> bool:
    """Whether Redis would take this for a complete stream id."""
    found = _STREAM_ID.fullmatch(text)
    return found is not None and int(found[1]) <= _MAX and int(found[2]) <= _MAX


def parse_stream_id(stream_id: str) -> tuple[int, int]:
    """An id from Redis as two numbers that sort like the stream; (0, 0) for the empty id.

    Raises ValueError for other text; check what comes from people with `is_stream_id` first.
    """
    ms, _, sequence = stream_id.partition("-")
    return int(ms or 0), int(sequence or 0)


def stream_id_ms(stream_id: str) -> int:
    """When an entry was added, in ms since 1970; 0 for the empty id. Raises ValueError as above."""
    return parse_stream_id(stream_id)[0]


def is_after(one: str, other: str) -> bool:
    """Whether one id comes after another in the stream."""
    return parse_stream_id(one) > parse_stream_id(other)
