"""Whether a demo adds up: an account of what was sent, a replay of the ledger, a look at what Redis holds.

Nothing here trusts the workers' word: every change is computed again from its event, every count of recent
games from the ledger, and every rating from the player's changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from redis.asyncio import Redis

from demonstration.matches import Delivery
from match_ratings import FIELD, Cause, MatchFinished, RatingUpdated
from match_ratings.stream_names import GROUP
from match_ratings_worker.queries import read_dead_letters
from match_ratings_worker.rating import Number, RatingSystem
from match_ratings_worker.storage.redis_keys import Keys
from match_ratings_worker.time_units import WINDOW_MS

__all__ = ["Account", "Ledger", "Statement", "statements"]

_DEAD = "dead:"


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that must hold, in words, and what speaks against it."""

    text: str
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Account:
    """What was sent, and what is to become of it."""

    matches: int = 0
    tournaments: int = 0
    #: Outcome -> messages.
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Ids of matches and tournaments that must be rated.
    rated: set[str] = field(default_factory=set)
    #: Of messages that must be dead letters: reason and bytes -> messages.
    dead: Counter[tuple[str, bytes]] = field(default_factory=Counter)

    def add(self, delivery: Delivery) -> None:
        message, becomes = delivery.message, delivery.becomes
        self.outcomes[becomes] += 1
        if becomes.startswith(_DEAD):
            if FIELD in delivery.fields:
                self.dead[becomes.removeprefix(_DEAD), delivery.fields[FIELD]] += 1
        elif becomes != "duplicate":
            self.matches = max(self.matches, delivery.number)
            if message is not None and not isinstance(message, MatchFinished):
                self.tournaments += 1
            if becomes != "not-rated" and message is not None:
                self.rated.add(
                    message.match_id if isinstance(message, MatchFinished) else message.tournament_id
                )

    @property
    def dead_letters(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.startswith(_DEAD))


@dataclass(slots=True)
class Ledger:
    """The ledger replayed: what the events say, held against themselves and each other."""

    system: RatingSystem
    events: int = 0
    late: int = 0
    #: Ids of matches and tournaments -> events.
    rated: Counter[str] = field(default_factory=Counter)
    #: The player's rating and the count of changes after the last event.
    ratings: dict[str, Number] = field(default_factory=dict)
    sequences: Counter[str] = field(default_factory=Counter)
    #: The finish times of the player's games so far, in order, in ms.
    games: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    wrong_figures: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    #: The id of the match that is the most worth looking at, and how much so.
    example: tuple[int, str] = (0, "")
    #: The stream id of the last event.
    last: str | None = None

    def add(self, event: RatingUpdated) -> None:
        self.events += 1
        self.last = event.id
        self.late += event.late
        name = event.match_id or event.tournament_id or "?"
        self.rated[name] += 1
        if event.cause is Cause.MATCH:
            self._replay(event, name)
        for part in event.players:
            if part.after != part.before + part.change:
                self.wrong_figures.append(f"{name}: {part.before} {part.change:+} is not {part.after}")
            if part.before != self.ratings.get(part.player, self.system.initial().rating):
                self.gaps.append(f"{name}: {part.player} did not have {part.before} before")
            if part.sequence != self.sequences[part.player] + 1:
                self.gaps.append(f"{name}: change {part.sequence} of {part.player} is out of turn")
            self.ratings[part.player] = part.after
            self.sequences[part.player] = part.sequence

    def _replay(self, event: RatingUpdated, name: str) -> None:
        outcome = self.system.recompute(event)
        if outcome.coefficient != event.coefficient or outcome.rules != event.rules:
            self.wrong_figures.append(f"{name}: the coefficient or the rules are not what comes out again")
        for part, side in zip(event.players, outcome.sides, strict=True):
            if (side.change, side.expected, side.k) != (part.change, part.expected, part.k):
                self.wrong_figures.append(
                    f"{name}: {part.change:+} for {part.player} does not come out again"
                )
            times = self.games[part.player]
            recent = bisect_left(times, event.finished_at) - bisect_left(times, event.finished_at - WINDOW_MS)
            if recent != part.recent_games:
                self.wrong_figures.append(f"{name}: {part.player} had {recent} recent games")
        for part in event.players:
            insort(self.games[part.player], event.finished_at)
        if (worth := _worth(event)) > self.example[0]:
            self.example = worth, name


def _worth(event: RatingUpdated) -> int:
    """How much there is to see in a match: different Ks above all, then a turned cube, then a gap."""
    if event.late:
        return 1
    first, second = event.players
    gap = min(abs(int(first.before - second.before)), 99)
    return 2 + 1000 * (first.k != second.k) + 100 * (1 < (event.cube or 1) < 64) + gap


async def statements(redis: Redis, keys: Keys, account: Account, ledger: Ledger) -> list[Statement]:
    """All that must hold once everything is settled."""
    outcomes = account.outcomes
    missing = sorted(account.rated - ledger.rated.keys())
    foreign = sorted(ledger.rated.keys() - account.rated)
    twice = sorted(name for name, count in ledger.rated.items() if count > 1)
    backlog = await redis.xlen(keys.inbox)
    claimed = (await redis.xpending(keys.inbox, GROUP))["pending"]
    return [
        Statement(
            f"every ranked match ({outcomes['rated']:,}) was rated exactly once, "
            f"and every public tournament ({outcomes['prize']:,}) paid its prizes once",
            (
                *(f"{name} was not rated" for name in missing),
                *(f"{name} was rated twice" for name in twice),
                *(f"{name} was rated and should not have been" for name in foreign),
            ),
        ),
        Statement(
            f"no boosted game, tournament game or private tournament ({outcomes['not-rated']:,}) changed "
            f"a rating, nor did a match that was sent again ({outcomes['duplicate']:,})",
            tuple(await _miscounted(redis, keys, outcomes)),
        ),
        Statement(
            f"every wrong message ({account.dead_letters:,}) is a dead letter with its reason and its bytes",
            tuple(await _dead(redis, keys, account)),
        ),
        Statement(
            f"every event ({ledger.events:,}) computed again from its own figures gives the same changes",
            tuple(ledger.wrong_figures),
        ),
        Statement(
            f"the ledger replayed gives the stored rating of every player ({len(ledger.ratings):,})",
            (*ledger.gaps, *await _unlike(redis, keys, ledger)),
        ),
        Statement(
            "the inbox is empty, and no worker holds anything back",
            (f"{backlog} messages wait and {claimed} are claimed",) if backlog or claimed else (),
        ),
    ]


async def _miscounted(redis: Redis, keys: Keys, outcomes: Counter[str]) -> list[str]:
    async with redis.pipeline(transaction=False) as pipe:
        pipe.hgetall(keys.counts)
        (stored,) = await pipe.execute()
    counted = {name.decode(): int(count) for name, count in stored.items()}
    return [
        f"{name}: {outcomes[name]} were sent and {counted.get(name, 0)} counted"
        for name in sorted(outcomes.keys() | counted.keys())
        if outcomes[name] != counted.get(name, 0)
    ]


async def _dead(redis: Redis, keys: Keys, account: Account) -> list[str]:
    found = Counter([(letter.reason, letter.message) async for letter in read_dead_letters(redis, keys)])
    faults = [
        f"{count} with reason {reason} are missing: {message[:60]!r}"
        for (reason, message), count in (account.dead - found).items()
    ]
    if found.total() != account.dead_letters:
        faults.append(f"there are {found.total()} dead letters instead of {account.dead_letters}")
    return faults


async def _unlike(redis: Redis, keys: Keys, ledger: Ledger) -> list[str]:
    """Where what is stored is not what the ledger gives."""
    faults = []
    players = list(ledger.ratings)
    for start in range(0, len(players), 1000):
        page = players[start : start + 1000]
        async with redis.pipeline(transaction=False) as pipe:
            for player in page:
                pipe.hmget(keys.player(player), ["rating", "sequence"])
                pipe.zscore(keys.leaderboard, player)
            replies = await pipe.execute()
        for player, (rating, sequence), score in zip(page, replies[::2], replies[1::2], strict=True):
            told = ledger.ratings[player], ledger.sequences[player]
            stored = ledger.system.parse_rating(rating or b"0"), int(sequence or 0)
            if stored != told or score != told[0]:
                faults.append(f"{player}: stored {stored}, listed {score}, by the ledger {told}")
    listed = await redis.zcard(keys.leaderboard)
    if listed != len(players):
        faults.append(f"there are {listed} players on the leaderboard instead of {len(players)}")
    return faults
