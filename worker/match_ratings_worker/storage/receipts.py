"""Receipts: strings in Redis that let each match, tournament and void have its effect at most once.

    ? ID ID ...        reserved by messages in the inbox; the first of them may be rated
    - DIGEST           settled without an event: not rated by the rules, or `imported`
    LEDGER-ID DIGEST   settled by the ledger's event of this id
    * DIGEST           settled earlier in the batch at hand; never stored

A digest stands for the content of the message that was settled. The Lua scripts write the same text.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: The digest of a match that another rater rated before the import.
IMPORTED: Final = "imported"


class Receipt(NamedTuple):
    """The text of a receipt, split at its first space."""

    #: "?", "-", "*" or a ledger id; "" when nothing is stored.
    mark: str
    #: Waiting message ids, or the digest.
    rest: str

    @classmethod
    def parse(cls, text: str | bytes | None) -> Receipt:
        """Parse the stored value; None or "" when there is none."""
        if not text:
            return NO_RECEIPT
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        mark, _, rest = text.partition(" ")
        return cls(mark, rest)

    @classmethod
    def in_batch(cls, digest: str) -> Receipt:
        """The receipt of a message that was settled earlier in the same batch."""
        return cls("*", digest)

    @property
    def is_settled(self) -> bool:
        """Whether a message with this id has had its effect."""
        return self.mark not in ("", "?")

    @property
    def is_in_batch(self) -> bool:
        """Whether it was settled earlier in the same batch, whose events have no ledger ids yet."""
        return self.mark == "*"

    @property
    def is_not_rated(self) -> bool:
        """Whether it was settled without an event."""
        return self.mark == "-"

    @property
    def is_imported(self) -> bool:
        """Whether another rater rated the match before the import."""
        return self.mark == "-" and self.rest == IMPORTED

    @property
    def next_id(self) -> str:
        """The inbox id of the message that may be rated next; "" when none waits."""
        return self.rest.partition(" ")[0] if self.mark == "?" else ""

    @property
    def ledger_id(self) -> str:
        """The id of the event; "" when there is none."""
        return self.mark if "-" in self.mark[1:] else ""


#: Nothing is stored.
NO_RECEIPT: Final = Receipt("", "")
