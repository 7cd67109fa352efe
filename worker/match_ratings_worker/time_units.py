"""Times in milliseconds, the unit of every time here: named spans, and the clock."""

from __future__ import annotations

import time
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
#: The window before a game in which a player's ranked games are counted: 7 x 24 h.
WINDOW_MS: Final = 7 * DAY_MS
#: How far ahead of the server's clock a match may have finished.
CLOCK_SKEW_MS: Final = 5 * MINUTE_MS


def now_ms() -> int:
    """This machine's clock, in ms since 1970."""
    return int(time.time() * 1000)


def keep_games_ms(horizon_ms: int) -> int:
    """How long a ranked game is kept for the window: a match as old as the horizon still finds its own.

    The two days of slack cover a window that is tidied only once on a day with a game, and clock skew.
    """
    return WINDOW_MS + horizon_ms + 2 * DAY_MS
