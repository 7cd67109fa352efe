"""Matches to rate: the same ones for the same arguments, as messages and as packed commands."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.wire import pack
from match_ratings import MatchFinished
from match_ratings.stream_names import FIELD, inbox

__all__ = ["LADDER", "LONG", "SHORT", "Ids", "Matches"]

LADDER = "backgammon"


@dataclass(frozen=True)
class Ids:
    """How ids look; `player` is a format that Python's % and Lua's string.format read alike."""

    player: str
    long: bool

    def matches(self, count: int, seed: str) -> Iterator[str]:
        """Different match ids for each seed."""
        numbers = random.Random(f"{seed} ids")
        for number in range(count):
            yield str(uuid.UUID(int=numbers.getrandbits(128), version=4)) if self.long else f"{seed}{number}"


#: 36 characters, as most servers have them.
LONG = Ids("00000000-0000-4000-8000-%012d", long=True)
SHORT = Ids("p%d", long=False)


@dataclass(frozen=True)
class Matches:
    """`count` matches between `players` players, all pairs equally likely."""

    count: int
    players: int
    seed: str = "1"
    ids: Ids = LONG
    ladder: str = LADDER
    #: The first match has players 0 and 1, the next 2 and 3, and so on, instead of random ones.
    everyone_once: bool = False

    def messages(self, now_ms: int | None = None) -> list[str]:
        """The messages, as `match_ratings.publish` writes them; they finished just before `now_ms`."""
        begin = (now_ms or int(time.time() * 1000)) - self.count - 1000
        pick = random.Random(self.seed)
        template = self._template()
        made = []
        for number, match_id in enumerate(self.ids.matches(self.count, self.seed)):
            if self.everyone_once:
                first, second = 2 * number, 2 * number + 1
            else:
                first = int(pick.random() * self.players)
                second = (first + 1 + int(pick.random() * (self.players - 1))) % self.players
            one, other = self.ids.player % first, self.ids.player % second
            winner = one if pick.random() < 0.5 else other
            cube = (1, 1, 1, 2, 2, 4)[int(pick.random() * 6)]
            made.append(template % (match_id, one, other, winner, cube, begin + number))
        return made

    def commands(self, ids_from_ms: int | None = None) -> list[bytes]:
        """Packed XADD commands; with stream ids that count up from `ids_from_ms`, or the server's own."""
        stream = inbox(self.ladder)
        return [
            pack("XADD", stream, f"{ids_from_ms}-{number}" if ids_from_ms else "*", FIELD, message)
            for number, message in enumerate(self.messages(ids_from_ms), start=1)
        ]

    def _template(self) -> str:
        sample = MatchFinished(
            match_id="@match", ladder=self.ladder, players=("@one", "@two"), winner="@one", finished_at=10**12
        ).model_dump_json()
        for old, new in (
            ('"@match"', '"%s"'),
            ('["@one","@two"]', '["%s","%s"]'),
            ('"@one"', '"%s"'),
            ('"cube":1', '"cube":%d'),
            (str(10**12), "%d"),
        ):
            if sample.count(old) != 1:
                raise RuntimeError(f"{old} is not in {sample} once")
            sample = sample.replace(old, new)
        return sample
