"""Print remarks and errors on standard error; imported by all, so it imports little."""

from __future__ import annotations

import sys
from contextlib import suppress

from match_ratings_worker.safe_text import printable


def print_note(text: str) -> None:
    """Print a remark on standard error, unless that is closed or broken."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
