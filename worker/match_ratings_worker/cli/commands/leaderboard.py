"""`leaderboard`: the players with the highest ratings, or those around one player."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from match_ratings_worker import queries
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import Column, Table, format_number, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import id_option, integer_option
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.queries import LeaderboardRow
from match_ratings_worker.storage import LadderHandle


def leaderboard(
    top: Annotated[int, integer_option("--top", 1, help="How many players.")] = 10,
    around: Annotated[str | None, id_option("--around", help="Show the players around this one.")] = None,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the players with the highest ratings, or those around one player.

    Players with equal ratings share a rank: 1, 2, 2, 4.
    """
    sheet = Table(
        Column("rank", right=True),
        Column("rating", right=True, style="bold"),
        Column("games", right=True),
        Column("player"),
    )

    def show(rows: list[LeaderboardRow]) -> None:
        if json:
            for row in rows:
                print_json(asdict(row))
            return
        sheet.add([(str(row.rank), format_number(row.rating), str(row.games), row.player) for row in rows])

    async def act(handle: LadderHandle) -> None:
        if around is not None:
            rows = await queries.rows_around(handle, around, top)
            if not rows:
                text = f"player {around} is not on the leaderboard of {handle.name}"
                raise CommandError(text, ExitCode.FAILED)
            show(rows)
            return
        empty = True
        async for rows in queries.leaderboard(handle, top):
            show(rows)
            empty = False
        if empty:
            print_note(f"nobody is on the leaderboard of {handle.name} yet")

    run_on_ladder(load_installation(), ladder, act)
