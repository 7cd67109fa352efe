"""What match servers, lobbies and leaderboards share with the rating worker. Needs pydantic and redis-py.

    messages        the messages as frozen pydantic models: MatchFinished, RatingUpdated, ...
    client          publish, enqueue and preview for servers; rating_updates for lobbies
    operator_client  voids, and dead letters listed, replayed and corrected, for a back office
    stream_names    names of streams, queue and jobs, for those who use Redis directly
    schemas/        JSON Schemas of the messages, for other languages
    command_line    the entry of `match-ratings`, which needs the extra `worker`

>>> from match_ratings import MatchFinished, publish
>>> match = MatchFinished(match_id="m-1", ladder="backgammon", players=("ada", "bob"), winner="ada",
...                       cube=2, finished_at="2026-11-29T12:00:00Z")
>>> await publish(redis, match)  # doctest: +SKIP

The way of one match: `publish` appends it to the inbox, a worker rates it, and `rating_updates` yields the
change to the lobby. The worker is the package `match_ratings_worker`.
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
from match_ratings.operator_client import (
    discard_dead_letters,
    edit_dead_letter,
    list_dead_letters,
    replay_dead_letters,
    restore_dead_letters,
    show_dead_letter,
    void_match,
    void_player,
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
    "discard_dead_letters",
    "edit_dead_letter",
    "enqueue",
    "inbox",
    "leaderboard",
    "list_dead_letters",
    "outbox",
    "preview",
    "publish",
    "rating_updates",
    "replay_dead_letters",
    "restore_dead_letters",
    "show_dead_letter",
    "void_match",
    "void_player",
]
