"""What is to be replayed, and how; kept with the run, so that it can be taken up again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from match_ratings_worker.dead_letters.letter_filter import Filter

__all__ = ["Order"]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be replayed, and how."""

    where: Filter = field(default_factory=Filter)
    #: Letters a second at most; None for as many as the workers take.
    rate: float | None = None
    #: Also what a replay cannot help now.
    include_parked: bool = False
    #: Also what is older than the horizon, if it was not rated.
    force_late: bool = False
    #: The operator's word, and reason, that it was not rated where the ledger cannot tell.
    never_rated: str = ""
    who: str = ""
    #: The inbox is filled up to so many entries at most, and to fewer where the workers are slow.
    room: int = 512
    #: Seconds without any progress after which the replay ends.
    patience: float = 30.0

    def to_json(self) -> str:
        """The order as it is kept."""
        return json.dumps(asdict(self), default=sorted)  # the only set is that of the reasons

    @classmethod
    def from_json(cls, text: str) -> Self:
        """An order that was kept."""
        data: dict[str, Any] = json.loads(text)
        where = data.pop("where")
        where |= {"ids": tuple(where["ids"]), "reasons": frozenset(where["reasons"])}
        return cls(Filter(**where), **data)
