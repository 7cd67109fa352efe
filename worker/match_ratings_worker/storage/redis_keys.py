"""The only place that builds Redis keys; the streams' names come from match_ratings.

A key's last part may be an id from a message: any Unicode without control characters. It follows the
ladder's hash tag and a fixed word, so that no id can reach another ladder's or another kind's keys.
"""

from __future__ import annotations

from match_ratings import stream_names as names
from match_ratings.messages import Message, MessageKind


class Keys:
    """The keys of one ladder, all in one hash slot. A name that ends in ``_`` is a prefix for an id."""

    __slots__ = (
        "archive",
        "busy_shares",
        "claim_leader",
        "corrections",
        "counts",
        "dead_letters",
        "discarded",
        "games_",
        "group",
        "heartbeats",
        "inbox",
        "leaderboard",
        "line_",
        "open_periods",
        "outbox",
        "player_",
        "prize_receipt_",
        "receipt_",
        "replay_",
        "restored",
        "settings",
        "settings_history",
        "shadow",
        "void_receipt_",
    )

    def __init__(self, ladder: str, *, shadow: bool = False) -> None:
        """A shadow has the ladder's inbox, and a set of its own of all other keys."""
        scope = names.scope(ladder, shadow=shadow)
        self.shadow = shadow
        #: Stream: messages from match servers.
        self.inbox = names.inbox(ladder)
        #: The workers' consumer group on the inbox; only live workers or only a shadow's have one.
        self.group = names.SHADOW_GROUP if shadow else names.GROUP
        #: Stream: rating changes, the ledger.
        self.outbox = names.outbox(ladder, shadow=shadow)
        #: Stream: messages that could not be rated.
        self.dead_letters = names.dead_letters(ladder, shadow=shadow)
        #: Sorted set: player -> rating.
        self.leaderboard = names.leaderboard(ladder, shadow=shadow)
        #: Hash: outcome (rated, not-rated, dead:<reason>, ...) -> how many since the start.
        self.counts = f"{scope}:counts"
        #: Hash: a player's rating, sequence, games, last game, and the system's own fields.
        self.player_ = f"{scope}:player:"
        #: Sorted set: match id -> finished_at in ms, a player's ranked games.
        self.games_ = f"{scope}:games:"
        #: List: stream ids of a player's claimed, unrated matches, oldest first.
        self.line_ = f"{scope}:line:"
        #: String: the receipt of a match: its ledger id and content digest, see `storage.receipts`.
        self.receipt_ = f"{scope}:receipt:"
        #: String: the receipt of a tournament.
        self.prize_receipt_ = f"{scope}:prize-receipt:"
        #: String: the receipt of a void, by the match's id.
        self.void_receipt_ = f"{scope}:void-receipt:"
        #: Sorted set: player -> end of the open rating period in ms.
        self.open_periods = f"{scope}:open-periods"
        #: Hash: the adopted settings: digest, system, settings (JSON), at (ms), who, why, after (ledger id).
        self.settings = f"{scope}:settings"
        #: Stream: the same fields for every adoption so far.
        self.settings_history = f"{scope}:settings-history"
        #: String: the only consumer that may claim for a while, when workers would block each other.
        self.claim_leader = f"{scope}:claim-leader"
        #: Hash: consumer -> when it last asked for messages, in ms.
        self.heartbeats = f"{scope}:heartbeats"
        #: Hash: consumer -> its busy share (0-1), a space, and when it was measured (ms).
        self.busy_shares = f"{scope}:busy-shares"
        #: Hash: the archive of the ledger: id, place (host and path), upto (the last event it has).
        self.archive = f"{scope}:archive"
        #: Hash: a replay's dead letters -> outcome; kept for a week.
        self.replay_ = f"{scope}:replay:"
        #: Stream: the histories of messages that people changed and then replayed.
        self.corrections = f"{scope}:corrections"
        #: Stream: dead letters that people took out for good, with who, when and why.
        self.discarded = f"{scope}:discarded"
        #: Hash: fingerprint of an exported dead letter -> the id under which it was put back.
        self.restored = f"{scope}:restored"

    def player(self, player: str) -> str:
        """The key of a player's state."""
        return self.player_ + player

    def games(self, player: str) -> str:
        """The key of a player's ranked games."""
        return self.games_ + player

    def line(self, player: str) -> str:
        """The key of a player's line."""
        return self.line_ + player

    def receipt(self, match_id: str) -> str:
        """The key of a match's receipt."""
        return self.receipt_ + match_id

    @property
    def receipt_prefixes(self) -> dict[MessageKind, str]:
        """Message kind -> the key of a receipt without the effect id."""
        return {"match": self.receipt_, "tournament": self.prize_receipt_, "void": self.void_receipt_}

    def receipt_of(self, message: Message) -> str:
        """The key of the receipt of a message."""
        return self.receipt_prefixes[message.kind] + message.effect_id
