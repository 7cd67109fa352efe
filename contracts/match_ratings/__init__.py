"""What match servers, lobby and leaderboard share with the rating worker: messages, names, client.

>>> from match_ratings import MatchFinished, publish
>>> match = MatchFinished(match_id="m-1", ladder="backgammon", players=("ada", "bob"), winner="ada",
...                       cube=2, finished_at="2026-11-29T12:00:00Z")
>>> await publish(redis, match)  # doctest: +SKIP
"""

from match_ratings.client import NotReplicated, enqueue, preview, publish, rating_updates
from match_ratings.messages import (
    Cause,
    DeadLetter,
    Ending,
    MatchFinished,
    MatchVoided,
    Mode,
    PlayerUpdate,
    RatingUpdated,
    Reason,
    TournamentFinished,
    WinType,
)
from match_ratings.stream_names import FIELD, JOB, QUEUE, dead_letters, inbox, leaderboard, outbox

__all__ = [
    "FIELD",
    "JOB",
    "QUEUE",
    "Cause",
    "DeadLetter",
    "Ending",
    "MatchFinished",
    "MatchVoided",
    "Mode",
    "NotReplicated",
    "PlayerUpdate",
    "RatingUpdated",
    "Reason",
    "TournamentFinished",
    "WinType",
    "dead_letters",
    "enqueue",
    "inbox",
    "leaderboard",
    "outbox",
    "preview",
    "publish",
    "rating_updates",
]
