"""Parses the reply of claim_messages.lua into claimed entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

from match_ratings.messages import MessageKind

from .message_batch import InboxEntry, ReplayOrigin


class ClaimedEntry(NamedTuple):
    """A claimed message, not validated yet."""

    entry: InboxEntry
    #: "" when the script could not read the message, and queued it nowhere.
    kind: MessageKind | Literal[""]
    #: None when there is no message, or one that is too large.
    raw: bytes | None
    #: Size of the message in bytes.
    size: int
    #: Without a kind: the error that kept the message from being queued, "" when there was none.
    effect_id: str


class ClaimReply(NamedTuple):
    """The outcome of one claim."""

    #: The server's time in ms.
    now: int
    #: The id of the stream's newest entry; everything up to it has been delivered to somebody when a claim
    #: of new messages found none.
    newest: str
    #: Time for which another worker is the claim leader, in ms; 0 when none is.
    leader_ttl_ms: int
    found: list[ClaimedEntry]


def parse_claim_reply(reply: Any, receipt_prefixes: Mapping[MessageKind, str]) -> ClaimReply:
    """Parse the script's reply; `receipt_prefixes` are the key prefixes by message kind."""
    now, newest, leader_ttl_ms, found = reply
    return ClaimReply(
        now, newest.decode(), leader_ttl_ms, [_claimed(item, now, receipt_prefixes) for item in found]
    )


def _claimed(item: list[Any], now: int, receipt_prefixes: Mapping[MessageKind, str]) -> ClaimedEntry:
    entry_id, attempts, kind, raw, size, exclusive, effect_id, replay, player_states, *players = item
    entry = InboxEntry(entry_id.decode(), attempts, exclusive=bool(exclusive), claimed_at=now)
    kind = kind.decode()
    effect = effect_id.decode("utf-8", "surrogateescape")
    if player_states:
        entry.player_states = player_states
    if replay:
        entry.replay = _replay_origin(replay)
    if kind:
        entry.players = tuple([player.decode("utf-8", "surrogateescape") for player in players])
        entry.receipt = receipt_prefixes[kind] + effect
    return ClaimedEntry(entry, kind, raw, size, effect)


def _replay_origin(raw: bytes) -> ReplayOrigin | None:
    """The inbox field `replay`; None when no replay wrote it."""
    try:
        data = orjson.loads(raw)
        run, letter = str(data["run"]), str(data["letter"])
        if not run.isalnum() or not letter.replace("-", "").isdigit():
            return None
        return ReplayOrigin(
            f"{run} {letter}",
            int(data["attempts"]),
            int(data["first_seen"]),
            str(data.get("history", "")),
            bool(data.get("force_late", False)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
