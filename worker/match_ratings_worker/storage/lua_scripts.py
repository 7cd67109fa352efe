"""The Lua scripts of storage/lua, called by their digests; the text goes only to a server that lacks it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from .pipelined_connection import CommandExecutor


def _read(name: str) -> str:
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


class Script:
    """The script `lua/<name>.lua`, behind the functions of `lua/_shared.lua`."""

    def __init__(self, name: str) -> None:
        own = _read(name)
        self.text = f"{_read('_shared')}\n{own}"
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        #: The number of keys that the header of the script names.
        self.key_count = len(set(re.findall(r"KEYS\[(\d+)\]", "".join(re.findall(r"^--.*\n", own, re.M)))))

    async def __call__(self, executor: CommandExecutor, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run the script and returns its reply; raises redis.exceptions.RedisError.

        Raises ValueError when the number of keys is not that of the script's header.
        """
        if len(keys) != self.key_count:
            msg = f"the script takes {self.key_count} keys, not {len(keys)}"
            raise ValueError(msg)
        try:
            return await executor.call("EVALSHA", self.sha, len(keys), *keys, *args)
        except NoScriptError:  # a new server, one that was restarted, or its scripts were flushed
            return await executor.call("EVAL", self.text, len(keys), *keys, *args)
