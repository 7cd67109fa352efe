"""Read-only views of the ladders' data for people, as frozen dataclasses. Nothing here prints or writes.

Streams and sorted sets are read in pages, so that memory stays bounded with a million players or a
hundred thousand dead letters. Everything raises redis.exceptions.RedisError when Redis does not answer,
and Unreadable for data under a ladder's keys that no worker wrote. Clients must return bytes.
"""

from worker.queries.ledger import Outcome, Trace, changes, event_at, mentions, trace
from worker.queries.letters import Letter, letters
from worker.queries.overview import Consumer, LadderStatus, Unread, has_worker, ladder_status, unread_streams
from worker.queries.periods import period_games, trace_event
from worker.queries.players import Place, Standing, leaderboard, places_around, standing
from worker.queries.streams import Unreadable, server_time

__all__ = [
    "Consumer",
    "LadderStatus",
    "Letter",
    "Outcome",
    "Place",
    "Standing",
    "Trace",
    "Unread",
    "Unreadable",
    "changes",
    "event_at",
    "has_worker",
    "ladder_status",
    "leaderboard",
    "letters",
    "mentions",
    "period_games",
    "places_around",
    "server_time",
    "standing",
    "trace",
    "trace_event",
    "unread_streams",
]
