"""Dead letters as lines of JSON, to be taken away and brought back."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from match_ratings import Reason
from match_ratings.messages import Ladder
from match_ratings_worker.dead_letters.edit_history import entries, message_parts
from match_ratings_worker.queries import DeadLetterEntry
from match_ratings_worker.storage.stream_ids import is_stream_id
from match_ratings_worker.text import quote

__all__ = ["BadRecord", "Record", "record_of"]


class BadRecord(Exception):
    """A line is no exported dead letter; the text says where and why."""


def _stream_id(value: object) -> object:
    if not isinstance(value, str) or not is_stream_id(value):
        raise PydanticCustomError("stream_id", "must be a stream id such as 1700000000000-0")
    return value


def _empty_or_stream_id(value: object) -> object:
    return value if value == "" else _stream_id(value)


Whole = Annotated[int, Field(strict=True, ge=0, le=2**53)]


class Record(BaseModel):
    """An exported dead letter."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ladder: Ladder
    id: Annotated[str, BeforeValidator(_stream_id)]
    reason: Reason
    detail: Annotated[str, Field(max_length=10_000)]
    source_id: Annotated[str, BeforeValidator(_empty_or_stream_id)]
    attempts: Whole
    #: Times in ms.
    first_seen: Whole
    dead_at: Whole
    #: The message as text; what is not UTF-8 is in `message_base64` instead.
    message: str | None = None
    message_base64: str | None = None
    history: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _has_one_message(self) -> Self:
        if (self.message is None) == (self.message_base64 is None):
            raise PydanticCustomError("message", "message or message_base64 is required, and not both")
        self.raw()
        return self

    def raw(self) -> bytes:
        """The message's bytes."""
        try:
            if self.message_base64 is not None:
                return base64.b64decode(self.message_base64, validate=True)
            return (self.message or "").encode()
        except (binascii.Error, ValueError):
            raise PydanticCustomError("message", "its message cannot be decoded") from None

    def letter(self) -> DeadLetterEntry:
        """The dead letter, with the id that it had."""
        history = json.dumps(self.history, ensure_ascii=True) if self.history else ""
        return DeadLetterEntry(
            id=self.id,
            message=self.raw(),
            reason=self.reason.value,
            detail=self.detail.encode("utf-8", "replace").decode(),
            source_id=self.source_id,
            attempts=self.attempts,
            first_seen=self.first_seen,
            dead_at=self.dead_at,
            history=history,
        )

    def fingerprint(self) -> str:
        """Stands for this letter, so that it is put back once: 32 hex digits."""
        about = json.dumps([self.id, self.source_id, self.dead_at]).encode()
        return hashlib.blake2b(about + b" " + self.raw(), digest_size=16).hexdigest()

    @classmethod
    def read(cls, line: bytes | dict[str, Any], ladder: str) -> Self:
        """A record from its line, or from its JSON object; raises BadRecord."""
        try:
            record = cls.model_validate_json(line) if isinstance(line, bytes) else cls.model_validate(line)
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            where = ".".join(map(str, item["loc"])) or "record"
            raise BadRecord(f"{where}: {item['msg'][:1].lower()}{item['msg'][1:200]}") from None
        if record.ladder != ladder:
            text = f"ladder: {quote(record.ladder)} is not allowed; it was exported from another ladder"
            raise BadRecord(text)
        return record


def record_of(letter: DeadLetterEntry, ladder: str) -> dict[str, Any]:
    """A dead letter as a JSON object, such as `Record` reads."""
    return {
        "ladder": ladder,
        "id": letter.id,
        "reason": letter.reason,
        "detail": letter.detail,
        "source_id": letter.source_id,
        "attempts": letter.attempts,
        "first_seen": letter.first_seen,
        "dead_at": letter.dead_at,
        **message_parts(letter.message),
        "history": entries(letter.history),
    }
