"""Read-only views of the ladders' data for people, as frozen dataclasses. Nothing here prints or writes.

Streams and sorted sets are read in pages, so memory stays bounded with a million players or a hundred
thousand dead letters. Everything raises redis.exceptions.RedisError when Redis does not answer, and
Unreadable for data under a ladder's keys that no worker wrote. Clients must return bytes.
"""

from match_ratings_worker.storage import DeadLetterEntry, Unreadable, read_dead_letters, server_time

from .ladder_status import LadderStatus, UnservedLadder, ladder_status, unserved_ladders
from .leaderboard_ranks import LeaderboardRow, Standing, leaderboard, rows_around, standing

__all__ = [
    "DeadLetterEntry",
    "LadderStatus",
    "LeaderboardRow",
    "Standing",
    "Unreadable",
    "UnservedLadder",
    "ladder_status",
    "leaderboard",
    "read_dead_letters",
    "rows_around",
    "server_time",
    "standing",
    "unserved_ladders",
]
