"""The settings that a ladder is rated by: adopted when, by whom and why, and their history.

All workers of a ladder must rate by the same settings, or its ratings would depend on who takes a match.
So Redis holds one set of them, and the commit script writes nothing for a worker that has others.
"""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from typing import Final

import orjson
from pydantic import ValidationError
from redis.asyncio import Redis

from match_ratings_worker.rating import SYSTEMS, BrokenSystem, RatingSystem
from match_ratings_worker.safe_text import describe_error, quote
from match_ratings_worker.storage import CommandExecutor, Keys, Script

#: Entries of a history that are read; it grows by one with each adoption.
_LONGEST: Final = 1000


class UnknownSettings(Exception):
    """Raised when this version cannot read adopted settings; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """Settings that were adopted for a ladder."""

    digest: str
    #: The rating system's name.
    system: str
    #: All its settings, defaults included, as JSON.
    settings: str
    #: When, in ms.
    at: int
    who: str
    why: str
    #: The ledger's last event then: later ones were rated by these settings.
    after: str

    def rating_system(self) -> RatingSystem:
        """The system with these settings; raises UnknownSettings."""
        try:
            return SYSTEMS[self.system].model_validate_json(self.settings)
        except BrokenSystem as error:
            why = str(error)
        except KeyError:
            why = f"there is no system of this name here, only {', '.join(SYSTEMS)}"
        except ValidationError as error:
            why = describe_error(error, whole="")
        msg = f"the adopted settings of system {quote(self.system)} cannot be read here: {why}"
        raise UnknownSettings(msg)


def settings_digest(system: RatingSystem) -> str:
    """16 hex digits that stand for a system and all its settings, defaults included."""
    settings = orjson.dumps(system.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS).decode()
    return hashlib.blake2b(f"{system.name} {settings}".encode(), digest_size=8).hexdigest()


async def adopted(redis: Redis, keys: Keys) -> Adoption | None:
    """The adopted settings; None before the ladder's first worker. Raises RedisError."""
    fields: dict[bytes, bytes] = await redis.hgetall(keys.settings)  # type: ignore[misc]  # wrong in redis-py
    return _adoption(fields) if fields else None


async def adopted_system(redis: Redis, keys: Keys, configured: RatingSystem) -> RatingSystem:
    """The system with its adopted settings; `configured` when none are adopted or they cannot be read."""
    adoption = await adopted(redis, keys)
    try:
        return configured if adoption is None else adoption.rating_system()
    except UnknownSettings:
        return configured


async def history(redis: Redis, keys: Keys) -> list[Adoption]:
    """All adoptions, newest first. Raises RedisError."""
    found = await redis.xrevrange(keys.settings_history, count=_LONGEST)
    return [_adoption(fields) for _, fields in found]


async def adopt(
    executor: CommandExecutor, keys: Keys, system: RatingSystem, *, expected_digest: str, who: str, why: str
) -> bool:
    """Adopt a system's settings if those with the digest `expected_digest` ("" for none) are adopted now.

    Raises RedisError.
    """
    key_list = (keys.settings, keys.settings_history, keys.outbox)
    arguments = (expected_digest, settings_digest(system), system.name, system.model_dump_json(), who, why)
    return bool(await _adopt(executor, key_list, arguments))


async def ensure_adopted(executor: CommandExecutor, keys: Keys, system: RatingSystem, digest: str) -> bool:
    """Whether these settings are the adopted ones; a ladder's first worker adopts its own.

    Raises RedisError.
    """
    current = await executor.call("HGET", keys.settings, "digest")
    if current is None:
        who = f"the first worker ({socket.gethostname()})"
        if await adopt(executor, keys, system, expected_digest="", who=who, why="nothing was adopted"):
            return True
        current = await executor.call("HGET", keys.settings, "digest")
    return bool(current == digest.encode())


_adopt = Script("adopt_settings")


def _adoption(fields: dict[bytes, bytes]) -> Adoption:
    text = {name.decode(): value.decode("utf-8", "backslashreplace") for name, value in fields.items()}
    at = text.get("at", "")
    return Adoption(
        digest=text.get("digest", ""),
        system=text.get("system", ""),
        settings=text.get("settings", "{}"),
        at=int(at) if at.isdigit() else 0,
        who=text.get("who", ""),
        why=text.get("why", ""),
        after=text.get("after", "0-0"),
    )
