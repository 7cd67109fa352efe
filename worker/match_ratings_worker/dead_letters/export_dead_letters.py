"""Dead letters as JSON objects: exported, and read again to be restored."""

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
from match_ratings_worker.safe_text import describe_error, quote
from match_ratings_worker.storage import DeadLetterEntry, history_items, is_stream_id, message_fields


class InvalidExport(Exception):
    """Raised for a line that is no exported dead letter; the text says where and why."""


def _stream_id(value: object) -> object:
    if not isinstance(value, str) or not is_stream_id(value):
        raise PydanticCustomError("stream_id", "must be a stream id such as 1700000000000-0")
    return value


def _empty_or_stream_id(value: object) -> object:
    return value if value == "" else _stream_id(value)


_Whole = Annotated[int, Field(strict=True, ge=0, le=2**53)]


class ExportedDeadLetter(BaseModel):
    """A line of an export; the fields of a dead letter, its ladder, and its history as an array."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ladder: Ladder
    id: Annotated[str, BeforeValidator(_stream_id)]
    reason: Reason
    detail: Annotated[str, Field(max_length=10_000)]
    source_id: Annotated[str, BeforeValidator(_empty_or_stream_id)]
    attempts: _Whole
    #: Times in ms.
    first_seen: _Whole
    dead_at: _Whole
    #: The message as text; in `message_base64` instead when it is not UTF-8.
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

    def entry(self) -> DeadLetterEntry:
        """The dead letter, with its old id."""
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
        """Identify this letter, so that it is restored once: 32 hex digits."""
        about = json.dumps([self.id, self.source_id, self.dead_at]).encode()
        return hashlib.blake2b(about + b" " + self.raw(), digest_size=16).hexdigest()

    @classmethod
    def read(cls, line: bytes | dict[str, Any], ladder: str) -> Self:
        """Read a line, or its JSON object, exported from this ladder. Raises InvalidExport."""
        try:
            found = cls.model_validate_json(line) if isinstance(line, bytes) else cls.model_validate(line)
        except ValidationError as error:
            raise InvalidExport(describe_error(error, whole="record")) from None
        if found.ladder != ladder:
            text = f"ladder: {quote(found.ladder)} is not allowed; it was exported from another ladder"
            raise InvalidExport(text)
        return found


def export_document(letter: DeadLetterEntry, ladder: str) -> dict[str, Any]:
    """A dead letter as the JSON object that `ExportedDeadLetter` reads."""
    fields = letter.fields()
    del fields["message"]
    return {
        "ladder": ladder,
        "id": letter.id,
        **fields,
        **message_fields(letter.message),
        "history": history_items(letter.history),
    }
