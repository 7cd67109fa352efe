"""The leaderboard, and one player's standing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from match_ratings_worker.rating import Game, InvalidGame, Number, RatingSystem, State
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle, Unreadable, parse_state, stored_fields, whole
from match_ratings_worker.time_units import WINDOW_MS

#: Rows read in one step.
_PAGE: Final = 1000

#: A leaderboard's row as stored: player and rating.
Row = tuple[bytes, float]


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One row of a leaderboard. Players with equal ratings share a rank: 1, 2, 2, 4."""

    rank: int
    player: str
    rating: Number
    #: Ranked games rated so far.
    games: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A player's stored state and place on the leaderboard."""

    player: str
    rating: Number
    #: None for a player who is not on the leaderboard.
    rank: int | None
    #: Number of players on the leaderboard.
    listed: int
    #: Ranked games rated so far.
    games: int
    #: Number of changes of the rating.
    sequence: int
    #: Finish time of the latest rated game, in ms; None before the first.
    last_game: int | None
    #: Ranked games that finished in the 7 days before now.
    recent_games: int
    #: K for a game that finishes now; None in systems without K.
    k: Number | None
    #: The system's own fields, such as a rating deviation.
    figures: dict[str, float]


async def leaderboard(ladder: LadderHandle, top: int) -> AsyncIterator[list[LeaderboardRow]]:
    """The first `top` rows, in pages; players with equal ratings in descending order of their ids.

    A rating that changes between two pages may show a player twice or not at all.
    """
    start, rank, rating = 0, 1, None
    while start < top:
        rows = await _rows(ladder, start, min(_PAGE, top - start))
        if not rows:
            return
        if rows[0][1] != rating:
            rank = start + 1
        places = await _ranked(ladder, rows, start, rank)
        yield places
        rank, rating, start = places[-1].rank, rows[-1][1], start + len(rows)


async def rows_around(ladder: LadderHandle, player: str, count: int) -> list[LeaderboardRow]:
    """`count` rows with the player in the middle; empty when the player is not on the leaderboard."""
    redis, board, wanted = ladder.redis, ladder.keys.leaderboard, player.encode()
    for _ in range(5):  # the player may move between the steps
        position = await redis.zrevrank(board, wanted)
        if position is None:
            break
        last_start = await redis.zcard(board) - count
        start = max(min(position - (count - 1) // 2, last_start), 0)
        rows = await _rows(ladder, start, count)
        if any(name == wanted for name, _ in rows):
            return await _ranked(ladder, rows, start, await _rank(ladder, rows[0][1]))
    return []


async def _rows(ladder: LadderHandle, start: int, count: int) -> list[Row]:
    board = ladder.keys.leaderboard
    rows: list[Row] = await ladder.redis.zrevrange(board, start, start + count - 1, withscores=True)
    return rows


async def _rank(ladder: LadderHandle, rating: float) -> int:
    return 1 + int(await ladder.redis.zcount(ladder.keys.leaderboard, f"({rating!r}", "+inf"))


async def _ranked(ladder: LadderHandle, rows: Sequence[Row], start: int, rank: int) -> list[LeaderboardRow]:
    """Adds ranks and games to rows from position `start` on, of which the first has this rank."""
    async with ladder.redis.pipeline(transaction=False) as pipe:
        for name, _ in rows:
            pipe.execute_command("HGET", ladder.keys.player_.encode() + name, "games")
        games = await pipe.execute(raise_on_error=False)
    places = []
    for index, ((name, score), played) in enumerate(zip(rows, games, strict=True)):
        if index and score != rows[index - 1][1]:
            rank = start + index + 1
        rating: Number = int(score) if ladder.system.integer_ratings else score
        places.append(LeaderboardRow(rank, name.decode("utf-8", "backslashreplace"), rating, whole(played)))
    return places


async def standing(ladder: LadderHandle, player: str, now: int) -> Standing | None:
    """A player's standing at `now` (ms); None for an unknown player. Raises Unreadable."""
    keys, system = ladder.keys, ladder.system
    async with ladder.redis.pipeline(transaction=False) as pipe:
        pipe.hmget(keys.player(player), list(stored_fields(system)))
        pipe.zcount(keys.games(player), now - WINDOW_MS, f"({now}")
        pipe.zscore(keys.leaderboard, player)
        pipe.zcard(keys.leaderboard)
        values, recent, score, listed = await pipe.execute()
    try:
        state = parse_state(values, system)
        sequence = int(values[1] or 0)
    except ValueError as error:
        msg = f"the stored state of player {quote(player)} cannot be read: {error}"
        raise Unreadable(msg) from None
    if state is None:
        return None
    return Standing(
        player=player,
        rating=state.rating,
        rank=None if score is None else await _rank(ladder, score),
        listed=listed,
        games=state.games,
        sequence=sequence,
        last_game=state.last_game or None,
        recent_games=recent,
        k=_current_k(system, state, recent, now),
        figures=dict(zip(system.state_fields, state.extra, strict=True)),
    )


def _current_k(system: RatingSystem, state: State, recent: int, now: int) -> Number | None:
    """K for a won game that finishes now, against an equal; None in systems without K."""
    game = Game(now, (1.0, 0.0), (recent, 0))
    if not system.accepts(game):
        game = game._replace(length=1)
    try:
        return system.preview(state, state, game).sides[0].k
    except InvalidGame:
        return None
