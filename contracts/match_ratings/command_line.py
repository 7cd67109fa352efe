"""The `match-ratings` command, as it is installed: hands over to the worker's command line."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NoReturn

__all__ = ["main"]

#: Packages of the extra `worker` that the command line cannot start without.
_NEEDED = ("arq", "typer", "structlog")


def main() -> NoReturn:
    """Run the command line; without the extra `worker` it says what to install, and exits with 3."""
    if any(find_spec(name) is None for name in _NEEDED):
        sys.stderr.write(
            "match-ratings: this command needs the worker: pip install 'match-ratings[worker]'\n"
        )
        sys.exit(3)
    from match_ratings_worker.cli import main as run

    run()
