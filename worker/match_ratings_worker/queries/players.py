"""A ladder's players: the leaderboard and one player's standing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from match_ratings_worker.rating import Game, InvalidGame, Number, RatingSystem, State
from match_ratings_worker.storage.keys import Keys
from match_ratings_worker.storage.player_states import parse_state, stored_fields
from match_ratings_worker.storage.stream_pages import Unreadable, whole
from match_ratings_worker.text import quote
from match_ratings_worker.units import WINDOW_MS

__all__ = ["LeaderboardRow", "Standing", "leaderboard", "rows_around", "standing"]

#: Places that are read in one step.
_PAGE: Final = 1000

#: A leaderboard's row as stored: player and rating.
Row = tuple[bytes, float]


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One line of a leaderboard. Players with equal ratings share a rank: 1, 2, 2, 4."""

    rank: int
    player: str
    rating: Number
    #: Ranked games rated so far.
    games: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A player as stored now."""

    player: str
    rating: Number
    #: The place on the leaderboard; None for a player who is not listed there.
    rank: int | None
    #: How many players are on the leaderboard.
    listed: int
    #: Ranked games rated so far.
    games: int
    #: How many times the rating was changed.
    sequence: int
    #: When the latest rated game finished, in ms; None before the first.
    last_game: int | None
    #: Ranked games that finished in the 7 days before now.
    recent_games: int
    #: The K that the system would use for a game that finished now; None in systems without one.
    k: Number | None
    #: The system's own fields, such as a rating deviation.
    figures: dict[str, float]


async def leaderboard(
    redis: Redis, keys: Keys, system: RatingSystem, top: int
) -> AsyncIterator[list[LeaderboardRow]]:
    """The first `top` places, in pages; equal ratings stand in falling order of the players' ids.

    A rating that changes between two pages may show a player twice or not at all.
    """
    start, rank, rating = 0, 1, None
    while start < top:
        rows = await _rows(redis, keys, start, min(_PAGE, top - start))
        if not rows:
            return
        if rows[0][1] != rating:
            rank = start + 1
        places = await _places(redis, keys, system, rows, start, rank)
        yield places
        rank, rating, start = places[-1].rank, rows[-1][1], start + len(rows)


async def rows_around(
    redis: Redis, keys: Keys, system: RatingSystem, player: str, count: int
) -> list[LeaderboardRow]:
    """`count` places with the player in the middle; none when the player is not on the leaderboard."""
    board, wanted = keys.leaderboard, player.encode()
    for _ in range(5):  # the player may move between the steps
        position = await redis.zrevrank(board, wanted)
        if position is None:
            break
        last_start = await redis.zcard(board) - count
        start = max(min(position - (count - 1) // 2, last_start), 0)
        rows = await _rows(redis, keys, start, count)
        if any(name == wanted for name, _ in rows):
            rank = await _rank(redis, keys, rows[0][1])
            return await _places(redis, keys, system, rows, start, rank)
    return []


async def _rows(redis: Redis, keys: Keys, start: int, count: int) -> list[Row]:
    rows: list[Row] = await redis.zrevrange(keys.leaderboard, start, start + count - 1, withscores=True)
    return rows


async def _rank(redis: Redis, keys: Keys, rating: float) -> int:
    return 1 + int(await redis.zcount(keys.leaderboard, f"({rating!r}", "+inf"))


async def _places(
    redis: Redis, keys: Keys, system: RatingSystem, rows: Sequence[Row], start: int, rank: int
) -> list[LeaderboardRow]:
    """The places for rows from position `start` on, of which the first has this rank."""
    async with redis.pipeline(transaction=False) as pipe:
        for name, _ in rows:
            pipe.execute_command("HGET", keys.player_.encode() + name, "games")
        games = await pipe.execute(raise_on_error=False)
    places = []
    for index, ((name, score), played) in enumerate(zip(rows, games, strict=True)):
        if index and score != rows[index - 1][1]:
            rank = start + index + 1
        rating: Number = int(score) if system.integer_ratings else score
        places.append(LeaderboardRow(rank, name.decode("utf-8", "backslashreplace"), rating, whole(played)))
    return places


async def standing(redis: Redis, keys: Keys, system: RatingSystem, player: str, now: int) -> Standing | None:
    """How a player stands at `now` (ms); None for a player who is not known. Raises Unreadable."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.hmget(keys.player(player), list(stored_fields(system)))
        pipe.zcount(keys.games(player), now - WINDOW_MS, f"({now}")
        pipe.zscore(keys.leaderboard, player)
        pipe.zcard(keys.leaderboard)
        stored, recent, score, listed = await pipe.execute()
    try:
        state = parse_state(stored, system)
        changed = int(stored[1] or 0)
    except ValueError as error:
        msg = f"the stored state of player {quote(player)} cannot be read: {error}"
        raise Unreadable(msg) from None
    if state is None:
        return None
    return Standing(
        player=player,
        rating=state.rating,
        rank=None if score is None else await _rank(redis, keys, score),
        listed=listed,
        games=state.games,
        sequence=changed,
        last_game=state.last_game or None,
        recent_games=recent,
        k=_coming_k(system, state, recent, now),
        figures=dict(zip(system.state_fields, state.extra, strict=True)),
    )


def _coming_k(system: RatingSystem, state: State, recent: int, now: int) -> Number | None:
    """The K for a won game that finishes now, against an equal; None where the system has none."""
    game = Game(now, (1.0, 0.0), (recent, 0))
    if not system.accepts(game):
        game = game._replace(length=1)
    try:
        return system.preview(state, state, game).sides[0].k
    except InvalidGame:
        return None
