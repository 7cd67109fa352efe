"""Every Lua script says what it takes, returns and writes; a wrong number of keys is refused."""

from __future__ import annotations

from importlib import resources

import pytest
from redis.asyncio import Redis

from match_ratings import Reason
from match_ratings_worker.storage.dead_letter_format import add_dead_letter, read_dead_letters
from match_ratings_worker.storage.lua_scripts import Script
from match_ratings_worker.storage.pipelined_connection import ClientExecutor
from match_ratings_worker.storage.redis_keys import Keys

FOLDER = resources.files("match_ratings_worker.storage") / "lua"
NAMES = sorted(
    file.name.removesuffix(".lua")
    for file in FOLDER.iterdir()
    if file.name.endswith(".lua") and file.name[0] != "_"
)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_opens_with_its_purpose_and_interface(name: str) -> None:
    lines = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").split("\n")
    header = lines[: next(number for number, line in enumerate(lines) if not line.startswith("--"))]
    text = "\n".join(header)
    for part in ("KEYS[1]", "ARGV", "-- Returns ", "-- Writes"):
        assert part in text, part
    assert max(map(len, lines)) <= 110
    assert Script(name).key_count > 0


async def test_a_wrong_number_of_keys_is_refused(redis: Redis) -> None:
    with pytest.raises(ValueError, match="takes 2 keys, not 1"):
        await Script("unblock_line")(ClientExecutor(redis), ["one"], [])


async def test_a_dead_letter_of_a_job_is_written_and_counted_or_neither(redis: Redis, ladder: str) -> None:
    keys = Keys(ladder)
    await add_dead_letter(redis, keys, b"{", Reason.MALFORMED, "it is no JSON")
    [letter] = [letter async for letter in read_dead_letters(redis, keys)]
    assert (letter.message, letter.reason, letter.source_id, letter.attempts) == (b"{", "malformed", "", 1)
    assert await redis.execute_command("HGETALL", keys.counts) == {b"dead:malformed": b"1"}
    # When it cannot be counted, it is not written either
    await redis.set(keys.counts, "no hash")
    with pytest.raises(Exception, match="WRONGTYPE"):
        await add_dead_letter(redis, keys, b"{", Reason.MALFORMED, "it is no JSON")
    assert await redis.xlen(keys.dead_letters) == 1
