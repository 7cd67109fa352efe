"""Redis and nothing else: addresses, connections, scripts, keys, and what is stored under them."""

from .dead_letter_format import (
    DeadLetterEntry,
    add_dead_letter,
    history_items,
    message_fields,
    read_dead_letters,
)
from .ladder_handle import LadderHandle
from .lua_scripts import Script
from .pipelined_connection import ClientExecutor, CommandExecutor
from .player_state_format import parse_state, stored_fields
from .players_snapshot import PLAYERS_PER_CALL, SnapshotReader, StoredPlayer
from .receipts import IMPORTED, NO_RECEIPT, Receipt
from .redis_connection import CONNECTION_ERRORS, connect, connection_pool, open_pipelined
from .redis_keys import Keys
from .redis_url import Address
from .server_checks import UnsupportedServer, server_warnings
from .stream_ids import MAX_STREAM_ID, is_after, is_stream_id, parse_stream_id, stream_id_ms
from .stream_pages import Unreadable, age, as_json, entries, server_time, whole
from .worker_liveness import HANDOVER_CONSUMER, Consumer, group_consumers, has_worker

__all__ = [
    "Address",
    "CONNECTION_ERRORS",
    "ClientExecutor",
    "CommandExecutor",
    "Consumer",
    "DeadLetterEntry",
    "HANDOVER_CONSUMER",
    "IMPORTED",
    "Keys",
    "LadderHandle",
    "MAX_STREAM_ID",
    "NO_RECEIPT",
    "PLAYERS_PER_CALL",
    "Receipt",
    "Script",
    "SnapshotReader",
    "StoredPlayer",
    "Unreadable",
    "UnsupportedServer",
    "add_dead_letter",
    "age",
    "as_json",
    "connect",
    "connection_pool",
    "entries",
    "group_consumers",
    "has_worker",
    "history_items",
    "is_after",
    "is_stream_id",
    "message_fields",
    "open_pipelined",
    "parse_state",
    "parse_stream_id",
    "read_dead_letters",
    "server_time",
    "server_warnings",
    "stored_fields",
    "stream_id_ms",
    "whole",
]
