"""JSON Schemas of the messages, from their models: for servers and consumers in other languages.

A schema for senders describes what is accepted, one for readers what is written. The `#:` comments of the
models become the descriptions. Rules that the models check in code are added here where JSON Schema can
express them, and are part of the descriptions where it cannot.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel

from match_ratings import (
    DeadLetter,
    MatchFinished,
    MatchVoided,
    PlayerUpdate,
    RatingUpdated,
    TournamentFinished,
)
from match_ratings.messages import DEFAULT_PRIZES

__all__ = ["DIRECTORY", "MODELS", "schema", "text", "write"]

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "contracts" / "match_ratings" / "schemas"

Schema = dict[str, Any]
Mode = Literal["validation", "serialization"]

#: File name -> model, and whether it is for those who send it or those who read it.
MODELS: Final[dict[str, tuple[type[BaseModel], Mode]]] = {
    "match-finished.json": (MatchFinished, "validation"),
    "tournament-finished.json": (TournamentFinished, "validation"),
    "match-voided.json": (MatchVoided, "validation"),
    "rating-updated.json": (RatingUpdated, "serialization"),
    "dead-letter.json": (DeadLetter, "serialization"),
}

#: Descriptions of fields that have no comment in their model.
_DESCRIPTIONS: Final = {
    "type": "The kind of message.",
    "version": "The version of this kind of message.",
    "match_id": "The match's id: 1-128 characters, no control characters. One id has one effect.",
    "tournament_id": "The tournament's id: 1-128 characters, no control characters. One id has one effect.",
    "ladder": "The ladder's name, the same as in the stream's name.",
    "mode": "How the match was played. Only ranked matches change ratings; casual is boosted's old name.",
    "win_type": "How much the winner won by. Not used by any formula.",
    "ending": "How the match ended. Not used by any formula.",
    "public": "Whether the tournament was open to all. Only public ones pay prizes.",
    "cause": "Why the ratings changed.",
    "reason": "Why the message could not be rated.",
    "player": "The player's id.",
    "players": "The players whose ratings changed.",
    "before": "The rating before.",
    "change": "What was added to the rating.",
    "after": "The rating after.",
    "expected": "The score that the system expected of this player, 0 to 1.",
    "k": "The factor K of this player's change.",
    "cube": "The doubling cube's value when the match ended.",
    "coefficient": "The factor that follows from the cube.",
    "message": "The message as received, byte for byte.",
    "finished_at": "When it finished.",
    "rated_at": "When it was rated.",
    "first_seen": "When it entered the inbox.",
    "dead_at": "When it became a dead letter.",
}

#: Sentences added to a model's docstring.
_NOTES: Final = {
    "MatchFinished": "Further fields are ignored. At most 16 KiB of UTF-8.",
    "TournamentFinished": "Further fields are ignored. At most 16 KiB of UTF-8.",
    "MatchVoided": "Further fields are ignored. At most 16 KiB of UTF-8.",
    "RatingUpdated": "Fields may be added.",
    "DeadLetter": "In the stream, numbers are decimal text.",
}

_MILLISECONDS: Final = "Integer milliseconds since 1970, UTC."
_RFC3339: Final = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$"


def schema(model: type[BaseModel], mode: Mode) -> Schema:
    """A model's JSON Schema (draft 2020-12)."""
    made = model.model_json_schema(mode=mode)
    definitions = made.pop("$defs", {})
    _describe(made, model)
    if "PlayerUpdate" in definitions:
        _describe(definitions["PlayerUpdate"], PlayerUpdate)
    for part in (made, *definitions.values()):
        for name, field in part.get("properties", {}).items():
            part["properties"][name] = _field(field, mode)
    if mode == "validation":
        _add_rules(made, definitions)
    head = {key: made.pop(key) for key in ("title", "description", "type")}
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **head, **made}
    return {**whole, "$defs": definitions} if definitions else whole


def _describe(part: Schema, model: type[BaseModel]) -> None:
    sentences = f"{model.__doc__} {_NOTES.get(model.__name__, '')}"
    part["description"] = " ".join(sentences.split())
    comments = _comments(model)
    for name, field in part["properties"].items():
        description = comments.get(name) or _DESCRIPTIONS.get(name)
        if description is None:
            raise LookupError(f"{model.__name__}.{name}: it needs a comment `#:` in its model")
        if "1970" in field.get("description", ""):  # a time
            description = f"{description} {_MILLISECONDS}"
        field["description"] = description


def _comments(model: type[BaseModel]) -> dict[str, str]:
    """The `#:` comments above a model's fields."""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in inspect.getsource(model).splitlines():
        stripped = line.strip()
        if stripped.startswith("#:"):
            lines.append(stripped.removeprefix("#:").strip())
        else:
            if lines and (name := re.match(r"(\w+):", stripped)):
                comment = re.sub(r"\b(None|True|False)\b", _in_json, " ".join(lines))
                found[name[1]] = comment[:1].upper() + comment[1:] + ("" if comment.endswith(".") else ".")
            lines = []
    return found


def _in_json(word: re.Match[str]) -> str:
    return {"None": "null", "True": "true", "False": "false"}[word[0]]


def _field(field: Schema, mode: Mode) -> Schema:
    """A field's schema without pydantic's own titles and doublings, the description first."""
    description = field.pop("description")
    if mode == "serialization" and any(
        choice.get("format") == "date-time" for choice in field.get("anyOf", ())
    ):
        field = field["anyOf"][0]
    elif mode == "validation" and _MILLISECONDS in description:
        description = description.replace(
            _MILLISECONDS, "Integer milliseconds since 1970, UTC, or RFC 3339 text with an offset."
        )
    return {"description": description, **_tidy(field)}


def _tidy(part: Any) -> Any:
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {_NAMES.get(key, key): _tidy(value) for key, value in part.items() if key != "title"}
    choices = part.get("anyOf", [])
    if {"type": "number"} in choices:
        choices = [choice for choice in choices if choice != {"type": "integer"}]
        part = {**part, "anyOf": choices} if len(choices) > 1 else {**_without(part, "anyOf"), **choices[0]}
    if part.get("format") == "date-time":
        part["pattern"] = _RFC3339
    items = part.get("prefixItems", [])
    if items and all(item == items[0] for item in items):
        part = {**_without(part, "prefixItems"), "items": items[0]}
    return part


#: Limits that pydantic names in its own way where a validator comes first.
_NAMES: Final = {"ge": "minimum", "le": "maximum"}


def _without(part: Schema, name: str) -> Schema:
    return {key: value for key, value in part.items() if key != name}


def _add_rules(made: Schema, definitions: Schema) -> None:
    """What the models check in code."""
    fields = made["properties"]
    for name in ("players", "podium"):
        if name in fields:
            fields[name]["uniqueItems"] = True
    if "Mode" in definitions:
        definitions["Mode"]["enum"].append("casual")
    if "prizes" in fields:
        fields["prizes"]["description"] += (
            f" As many as the podium has places; by default {', '.join(map(str, DEFAULT_PRIZES))} for up to"
            f" {len(DEFAULT_PRIZES)} places."
        )
        made["if"] = {"not": {"required": ["prizes"]}}
        made["then"] = {"properties": {"podium": {"maxItems": len(DEFAULT_PRIZES)}}}


def text(file: str) -> str:
    """What a schema's file holds."""
    return json.dumps(schema(*MODELS[file]), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Writes all files, and removes those of models that are gone."""
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.json"):
        if old.name not in MODELS:
            old.unlink()
    for file in MODELS:
        (DIRECTORY / file).write_text(text(file), encoding="utf-8")


if __name__ == "__main__":
    write()
