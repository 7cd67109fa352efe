"""The messages: those that match servers send, and those that lobby and leaderboard read.

All are JSON in the stream field ``message``, frozen, and ignore fields they do not know, so that a
newer producer does not break an older worker. Times are integer milliseconds since 1970 (UTC) once
read; on the way in an RFC 3339 text with an offset, or an aware datetime, is as good.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from match_ratings.stream_names import LADDER_PATTERN

__all__ = [
    "CUBES",
    "DEFAULT_PRIZES",
    "MESSAGE_TYPES",
    "VERSION",
    "Cause",
    "DeadLetter",
    "Ending",
    "MatchFinished",
    "MatchVoided",
    "Message",
    "MessageKind",
    "Mode",
    "PlayerUpdate",
    "RatingUpdated",
    "Reason",
    "TournamentFinished",
    "WinType",
    "milliseconds",
]

#: The newest message version that this code reads and the one it writes.
VERSION: Final = 1
#: The values a doubling cube can show.
CUBES: Final = (1, 2, 4, 8, 16, 32, 64)
#: Rating points for first, second and third place of a public tournament.
DEFAULT_PRIZES: Final = (50, 25, 15)

#: 1973-03-03 and 5138-11-16: outside them an integer is no time in milliseconds.
_MIN_MS: Final = 100_000_000_000
_MAX_MS: Final = 99_999_999_999_999
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(value: object) -> int:
    """A time as integer milliseconds since 1970 (UTC).

    Takes an integer of milliseconds, an RFC 3339 text with an offset, or an aware datetime. Digits
    past the millisecond are cut off. Raises PydanticCustomError (a ValueError) for everything else:
    seconds, microseconds, decimals, and times without an offset are never guessed at.
    """
    if type(value) is int:
        if _MIN_MS <= value <= _MAX_MS:
            return value
        unit = "seconds" if 0 <= value < _MIN_MS else "not milliseconds"
        raise PydanticCustomError("time", "looks like {unit}; use milliseconds since 1970", {"unit": unit})
    if isinstance(value, str):
        value = _parse_rfc3339(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        since = value - _EPOCH
        whole = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
        if _MIN_MS <= whole <= _MAX_MS:
            return whole
        raise PydanticCustomError("time", "is outside 1973-5138")
    raise PydanticCustomError(
        "time", "must be an RFC 3339 time with an offset or an integer of milliseconds since 1970"
    )


def _parse_rfc3339(text: str) -> datetime | None:
    found = _RFC3339.fullmatch(text)
    if not found:
        return None
    day, time, fraction, offset = found.groups()
    micro = (fraction or "0")[:6].ljust(6, "0")
    try:
        return datetime.fromisoformat(f"{day}T{time}.{micro}{offset.upper().replace('Z', '+00:00')}")
    except ValueError:
        return None


def _known_cube(value: object) -> object:
    if type(value) is int and value not in CUBES:
        raise PydanticCustomError("cube", "must be one of 1, 2, 4, 8, 16, 32, 64")
    return value


def _current_mode(value: object) -> object:
    return "boosted" if value == "casual" else value


def _whole(value: object) -> object:
    """Keep 8.0, true and "8" from passing for an integer."""
    if type(value) is not int:
        raise PydanticCustomError("int_type", "must be a whole number")
    return value


class Mode(StrEnum):
    """How a match was played; only ranked ones change ratings."""

    RANKED = "ranked"
    BOOSTED = "boosted"  # called casual before rules 1.3.0
    TOURNAMENT = "tournament"


class WinType(StrEnum):
    """How much the winner won by; not used by any formula."""

    SINGLE = "single"
    GAMMON = "gammon"
    BACKGAMMON = "backgammon"


class Ending(StrEnum):
    """How the match ended; not used by any formula."""

    PLAYED = "played"
    RESIGNED = "resigned"
    LEFT = "left"
    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed-out"


class Cause(StrEnum):
    """Why a rating changed."""

    MATCH = "match"
    PRIZE = "prize"
    VOID = "void"
    IMPORT = "import"
    PERIOD = "period"


class Reason(StrEnum):
    """Why a message is a dead letter."""

    #: No JSON object, not UTF-8, over 16 KiB, or no field `message`.
    MALFORMED = "malformed"
    #: A field is missing or wrong.
    INVALID = "invalid"
    #: The version is newer than the worker; replay it after an upgrade.
    UNSUPPORTED_VERSION = "unsupported-version"
    #: It names another ladder than its stream.
    WRONG_LADDER = "wrong-ladder"
    #: Both players are the same.
    SELF_PLAY = "self-play"
    #: The id was received before with other content.
    CONFLICT = "conflict"
    #: It finished more than 5 minutes in the future.
    CLOCK_SKEW = "clock-skew"
    #: It is older than the horizon.
    TOO_LATE = "too-late"
    #: It was claimed `RATINGS_MAX_ATTEMPTS` times and no worker could finish it.
    FAILED = "failed"


#: An id of a match, tournament or player: 1-128 characters, no control characters.
Id = Annotated[str, StringConstraints(strict=True, pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,128}$")]
#: An event's place in the ledger: its stream id.
LedgerId = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9]{1,18}-[0-9]{1,18}$")]
#: A ladder's name.
Ladder = Annotated[str, StringConstraints(strict=True, max_length=64, pattern=LADDER_PATTERN)]
#: Milliseconds since 1970, UTC.
Milliseconds = Annotated[
    int,
    BeforeValidator(milliseconds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": _MIN_MS, "maximum": _MAX_MS},
                {"type": "string", "format": "date-time"},
            ],
            "description": "milliseconds since 1970 (UTC), or RFC 3339 with an offset",
        }
    ),
]
#: What a constructor takes for a time: see `milliseconds`.
TimeInput = int | str | datetime
Version = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
Cube = Annotated[
    int,
    BeforeValidator(_known_cube),
    BeforeValidator(_whole),
    WithJsonSchema({"enum": list(CUBES), "type": "integer"}),
]
Length = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1000)]
Points = Annotated[int, BeforeValidator(_whole), Field(ge=-1000, le=1000)]
#: A number that stays what it is: 1500 is not turned into 1500.0.
Number = int | float


#: What a message is about; receipts are kept apart by it.
MessageKind = Literal["match", "tournament", "void"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")


class MatchFinished(_Message):
    """A match server says that a match has finished."""

    kind: ClassVar[Literal["match"]] = "match"

    type: Literal["match-finished"] = "match-finished"
    version: Version = VERSION
    match_id: Id
    ladder: Ladder
    mode: Annotated[Mode, BeforeValidator(_current_mode)] = Mode.RANKED
    #: Two different players; their order matters only to systems that have a first player.
    players: tuple[Id, Id]
    #: One of the players, or None for a draw.
    winner: Id | None
    #: The doubling cube's value when the match ended.
    cube: Cube = 1
    #: The match's length in points; None for an unlimited one.
    length: Length | None = None
    win_type: WinType = WinType.SINGLE
    ending: Ending = Ending.PLAYED
    finished_at: Milliseconds

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            match_id: str,
            ladder: str,
            players: tuple[str, str],
            winner: str | None,
            finished_at: TimeInput,
            mode: Mode | Literal["ranked", "boosted", "casual", "tournament"] = ...,
            cube: int = ...,
            length: int | None = ...,
            win_type: WinType | Literal["single", "gammon", "backgammon"] = ...,
            ending: Ending | Literal["played", "resigned", "left", "disconnected", "timed-out"] = ...,
            type: Literal["match-finished"] = ...,
            version: int = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _players_differ_and_one_won(self) -> Self:
        first, second = self.players
        if first == second:
            raise PydanticCustomError("self_play", "players must be two different ids")
        if self.winner is not None and self.winner != first and self.winner != second:
            raise PydanticCustomError("winner", "winner must be one of the players, or null for a draw")
        return self

    @property
    def effect_id(self) -> str:
        """The id whose effect happens at most once: `match_id`."""
        return self.match_id

    @property
    def player_ids(self) -> tuple[str, ...]:
        """Everyone whose rating the message may change."""
        return self.players


class TournamentFinished(_Message):
    """A tournament has finished; a public one pays rating points to its podium, once."""

    kind: ClassVar[Literal["tournament"]] = "tournament"

    type: Literal["tournament-finished"] = "tournament-finished"
    version: Version = VERSION
    tournament_id: Id
    ladder: Ladder
    public: Annotated[bool, Field(strict=True)]
    #: Different player ids, first place first.
    podium: Annotated[tuple[Id, ...], Field(min_length=1, max_length=16)]
    #: Rating points for each place of the podium.
    prizes: Annotated[tuple[Points, ...], Field(min_length=1, max_length=16)] = DEFAULT_PRIZES
    finished_at: Milliseconds

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            tournament_id: str,
            ladder: str,
            public: bool,
            podium: Sequence[str],
            finished_at: TimeInput,
            prizes: Sequence[int] = ...,
            type: Literal["tournament-finished"] = ...,
            version: int = ...,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _default_prizes_fit_the_podium(cls, data: Any) -> Any:
        if isinstance(data, dict) and "prizes" not in data and isinstance(data.get("podium"), list | tuple):
            return {**data, "prizes": list(DEFAULT_PRIZES[: len(data["podium"])])}
        return data

    @model_validator(mode="after")
    def _podium_differs_and_prizes_match(self) -> Self:
        if len(set(self.podium)) != len(self.podium):
            raise PydanticCustomError("podium", "podium must name different players")
        if len(self.prizes) != len(self.podium):
            raise PydanticCustomError("prizes", "prizes must have as many places as the podium")
        return self

    @property
    def effect_id(self) -> str:
        """The id whose effect happens at most once: `tournament_id`."""
        return self.tournament_id

    @property
    def player_ids(self) -> tuple[str, ...]:
        """Everyone whose rating the message may change."""
        return self.podium


class MatchVoided(_Message):
    """A rated match is voided: both players' changes by exactly that match are undone, once."""

    kind: ClassVar[Literal["void"]] = "void"

    type: Literal["match-voided"] = "match-voided"
    version: Version = VERSION
    match_id: Id
    ladder: Ladder
    #: The match's two players, in any order.
    players: tuple[Id, Id]
    #: Why, for the ledger: 1-500 characters.
    why: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=500)]
    #: The match's place in the ledger: needed for one that is older than the horizon, whose receipt is
    #: no longer kept.
    ledger_id: LedgerId | None = None
    #: When the void was decided.
    finished_at: Milliseconds

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            match_id: str,
            ladder: str,
            players: tuple[str, str],
            why: str,
            finished_at: TimeInput,
            ledger_id: str | None = ...,
            type: Literal["match-voided"] = ...,
            version: int = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _players_differ(self) -> Self:
        if self.players[0] == self.players[1]:
            raise PydanticCustomError("self_play", "players must be two different ids")
        return self

    @property
    def effect_id(self) -> str:
        """The id whose effect happens at most once: the `match_id` of the voided match."""
        return self.match_id

    @property
    def player_ids(self) -> tuple[str, ...]:
        """Everyone whose rating the message may change."""
        return self.players


#: Any message that a worker takes from an inbox.
Message = MatchFinished | TournamentFinished | MatchVoided

#: The value of `type` -> the model; a message without one is a finished match.
MESSAGE_TYPES: Final[Mapping[str, type[Message]]] = MappingProxyType(
    {"match-finished": MatchFinished, "tournament-finished": TournamentFinished, "match-voided": MatchVoided}
)


class PlayerUpdate(_Message):
    """One player's part of a rating change, with the figures that made it."""

    player: Id
    #: 1 won, 0 lost, 0.5 drew; None where there was no game (prize, import).
    score: Number | None = None
    before: Number
    change: Number
    after: Number
    #: The score that the system expected of this player, 0 to 1.
    expected: float | None = None
    k: Number | None = None
    #: Ranked games that finished in the 7 days before this one.
    recent_games: int | None = None
    #: The number of this player's change: 1, 2, 3, ... without gaps.
    sequence: int
    #: Further figures of the system, such as a rating deviation before and after.
    figures: dict[str, Number] = Field(default_factory=dict)
    #: Recent ranked games that an import brought: match id -> finish time in ms.
    brought: dict[str, int] = Field(default_factory=dict)


class RatingUpdated(_Message):
    """The ratings of the players named here have changed; enough to recompute the change."""

    version: Version = VERSION
    cause: Cause
    match_id: Id | None = None
    tournament_id: Id | None = None
    ladder: Ladder
    #: The rating system's name.
    system: str
    #: The version of the rules that were in force when the match finished.
    rules: str
    cube: int | None = None
    coefficient: float | None = None
    finished_at: Milliseconds
    rated_at: Milliseconds
    #: True when a later game of one of the players had been rated before.
    late: bool = False
    #: Why the match was voided; only with cause `void`.
    why: str | None = None
    players: tuple[PlayerUpdate, ...]
    #: Further figures of the match that the system used, such as its length.
    figures: dict[str, Number] = Field(default_factory=dict)
    #: The event's stream id, which is its place in the ledger; set by `rating_updates`, else empty.
    id: str = Field(default="", exclude=True)


class DeadLetter(_Message):
    """A message that could not be rated: its bytes, why, and where it came from.

    In its stream each of these is a field of the entry, so that the message's bytes stay as they were.
    """

    message: bytes
    reason: Reason
    #: One sentence for a person.
    detail: str
    #: The message's id in the inbox; empty when it came from a job.
    source_id: str
    #: How often a worker had claimed it.
    attempts: int
    first_seen: Milliseconds
    dead_at: Milliseconds
    #: What people did to it, oldest first: a JSON array of objects with at (ms), who, why, and for an edit
    #: the message before.
    history: str = ""
    #: The dead letter's own stream id; known to readers only.
    id: str | None = None
