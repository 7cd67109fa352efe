"""Players of another rater, read from lines of JSON or rows of CSV, and checked. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticCustomError

from match_ratings.messages import Id, Milliseconds
from match_ratings_worker.rating import RatingSystem, State
from match_ratings_worker.safe_text import describe_error, quote
from match_ratings_worker.time_units import CLOCK_SKEW_MS

#: Recent games per player, at most.
MOST_GAMES: Final = 2000

#: Lowest and highest value of the systems' own fields, both included. Others need only be finite.
_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "rd": (1e-3, 100_000),
    "volatility": (1e-6, 1),
    "experience": (0, 1e9),
    "peak": (0, 100_000),
    "period": (0, 1e9),
    "period_games": (0, 1e6),
    "period_information": (0, 1e9),
    "period_opponents": (0, 1e9),
    "period_halves": (0, 1e6),
}


_GAMES: Final = "use [{match_id: ..., finished_at: ...}, ...] with names and texts in double quotes"


class InvalidLine(Exception):
    """Raised for a line that cannot be used; the text is one sentence, without the line number."""


class PlayerRecord(NamedTuple):
    """An imported player."""

    player: str
    state: State
    #: Match id -> finish time in ms, of the player's recent ranked games.
    recent: dict[str, int]
    #: 16 hex digits of a hash of the above.
    digest: str


class _Game(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    match_id: Id
    finished_at: Milliseconds


def _not_a_bool(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number")
    return value


def _whole(value: float) -> float:
    if value % 1:
        raise PydanticCustomError("whole", "must be a whole number")
    return value


def _birth_year(value: float) -> float:
    if value and not 1850 <= value <= 2200:
        raise PydanticCustomError("birth_year", "must be a year, or 0 when it is not known")
    return value


def _month(value: float) -> float:
    if value and not 1 <= value % 100 <= 12:
        raise PydanticCustomError("month", "must be a month such as 202610, or 0")
    return value


class PlayerReader:
    """Reads the players of one ladder; `now` in ms."""

    def __init__(self, system: RatingSystem, now: int) -> None:
        self._system, self._latest = system, now + CLOCK_SKEW_MS
        self._initial = system.initial()
        self._model = _model(system)
        #: The fields that a line may have.
        self.names = tuple(self._model.model_fields)

    def json(self, raw: bytes) -> PlayerRecord:
        """The player in a JSON object; raises InvalidLine."""
        try:
            found: Any = self._model.model_validate_json(raw)
        except ValidationError as error:
            raise InvalidLine(self._why(error, raw)) from None
        return self._record(found)

    def row(self, cells: Mapping[str, str]) -> PlayerRecord:
        """The player in a row of CSV, given as column -> cell without the empty cells; raises InvalidLine.

        The cell `recent_games` holds a JSON array, as in a line of JSON.
        """
        data: dict[str, Any] = dict(cells)
        if cells.get("last_game", "").isdecimal():
            data["last_game"] = int(cells["last_game"])
        if "recent_games" in data:
            try:
                data["recent_games"] = orjson.loads(data["recent_games"])
            except orjson.JSONDecodeError:
                raise InvalidLine(
                    f"recent_games: {quote(data['recent_games'])} is not JSON; {_GAMES}"
                ) from None
        try:
            found: Any = self._model.model_validate(data)
        except ValidationError as error:
            raise InvalidLine(self._why(error, None)) from None
        return self._record(found)

    def _record(self, found: Any) -> PlayerRecord:
        recent = {game.match_id: game.finished_at for game in found.recent_games}
        if len(recent) < len(found.recent_games):
            raise InvalidLine("recent_games: a match id is there twice")
        latest = max(recent.values(), default=0)
        last_game = latest if found.last_game is None else found.last_game
        if max(last_game, latest) > self._latest:
            name = "recent_games" if latest > self._latest else "last_game"
            raise InvalidLine(f"{name}: {max(last_game, latest)} is ahead of the server's clock")
        if last_game < latest:
            raise InvalidLine(f"last_game: {last_game} is before the latest of recent_games, {latest}")
        if found.games < len(recent):
            raise InvalidLine(f"games: {found.games} is less than the {len(recent)} games in recent_games")
        own = [getattr(found, name) for name in self._system.state_fields]
        extra = tuple(
            [start if value is None else value for value, start in zip(own, self._initial.extra, strict=True)]
        )
        state = State(found.rating, found.games, last_game, extra)
        if self._system.state_fields:
            self._check_period(state)
        content = [found.player, *state[:3], extra, sorted(recent.items())]
        digest = hashlib.blake2b(orjson.dumps(content), digest_size=8).hexdigest()
        return PlayerRecord(found.player, state, recent, digest)

    def _check_period(self, state: State) -> None:
        try:
            self._system.closes_at(state)
        except (ArithmeticError, ValueError) as error:
            raise InvalidLine(f"the rating period's fields do not fit each other: {error}") from None

    def _why(self, error: ValidationError, raw: bytes | None) -> str:
        known = f"there is no field of this name; this system knows {', '.join(self.names)}"
        return describe_line(error, raw, {"extra_forbidden": known})


def describe_line(error: ValidationError, raw: bytes | None, hints: Mapping[str, str] | None = None) -> str:
    """One sentence on the error of a line; `hints` as for `describe_error`."""
    if error.errors(include_url=False)[0]["type"] == "json_invalid":
        return f"not JSON: {_json_fault(raw or b'')}"
    return describe_error(error, whole="", hints=hints)


def _json_fault(raw: bytes) -> str:
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return "it is not UTF-8 or nested too deep"


def _model(system: RatingSystem) -> type[BaseModel]:
    """The model of a line for one system, whose own fields are optional: they have initial values."""
    number = BeforeValidator(_not_a_bool)
    rating: Any = Annotated[int, number, Field(ge=-100_000, le=100_000)]
    if not system.integer_ratings:
        rating = Annotated[float, number, Field(ge=-100_000, le=100_000, allow_inf_nan=False)]
    fields: dict[str, Any] = {
        "player": (Id, ...),
        "rating": (rating, ...),
        "games": (Annotated[int, number, Field(ge=0, le=1_000_000_000)], ...),
        "last_game": (Milliseconds | None, None),
        "recent_games": (Annotated[tuple[_Game, ...], Field(max_length=MOST_GAMES)], ()),
    }
    for name in system.state_fields:
        low, high = _LIMITS.get(name, (-(2.0**53), 2.0**53))
        own: Any = Annotated[float, number, Field(ge=low, le=high, allow_inf_nan=False)]
        if system.integer_ratings:
            own = Annotated[own, AfterValidator(_whole)]
        if name == "birth_year":
            own = Annotated[own, AfterValidator(_birth_year)]
        elif name == "period" and system.integer_ratings:
            own = Annotated[own, AfterValidator(_month)]
        fields[name] = (own | None, None)
    return create_model("Player", __config__=ConfigDict(frozen=True, extra="forbid"), **fields)
