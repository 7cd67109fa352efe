"""A Lua script of storage/lua, called by its digest and sent whole only to a server that lacks it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from match_ratings_worker.storage.pipelined_connection import CommandExecutor

__all__ = ["Script"]


class Script:
    """The script `lua/<name>.lua`."""

    def __init__(self, name: str) -> None:
        self.text = resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, executor: CommandExecutor, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """What the script returns; raises redis.exceptions.RedisError."""
        try:
            return await executor.call("EVALSHA", self.sha, len(keys), *keys, *args)
        except NoScriptError:  # a new server, one that was restarted, or its scripts were flushed
            return await executor.call("EVAL", self.text, len(keys), *keys, *args)
