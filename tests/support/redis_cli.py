"""A stand-in for redis-cli, which is not everywhere: runs one command and prints as it does on a terminal."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import redis


def shown(reply: Any, indent: str = "") -> str:
    """A reply as redis-cli shows it."""
    if isinstance(reply, list):
        width = len(str(len(reply)))
        lines = []
        for number, part in enumerate(reply, 1):
            mark = f"{number:>{width}}) "
            lines.append(mark + shown(part, indent + " " * len(mark)))
        return f"\n{indent}".join(lines) or "(empty array)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if reply is None:
        return "(nil)"
    return reply.decode() if reply in (b"OK", b"PONG") else json.dumps(reply.decode())


def main() -> None:
    """Runs the command line's command, on the server of `-u` or of the document."""
    words, url = sys.argv[1:], os.environ["DOCUMENT_REDIS_URL"]
    if words[0] == "-u":
        url, words = words[1], words[2:]
    client = redis.Redis.from_url(url)
    client.response_callbacks.clear()
    try:
        print(shown(client.execute_command(*words)))
    except redis.ResponseError as error:
        sys.exit(f"(error) {error}")


if __name__ == "__main__":
    main()
