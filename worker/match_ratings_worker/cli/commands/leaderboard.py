"""`leaderboard` and `player`: where players stand and what changed their ratings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from match_ratings_worker.cli.commands.archive import archived
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    format_time,
    print_fields,
    print_heading,
    print_json,
    print_note,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.parameters import checked_id, integer_option
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings import RatingUpdated
    from match_ratings_worker.queries import LeaderboardRow, Standing

__all__ = ["leaderboard", "player"]


def leaderboard(
    top: Annotated[int, integer_option("--top", 1, help="How many players.")] = 10,
    around: Annotated[
        str | None, typer.Option("--around", metavar="PLAYER", help="Show the players around this one.")
    ] = None,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print the players with the highest ratings, or those around one player.

    Players with equal ratings share a rank: 1, 2, 2, 4.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)
    if around is not None:
        checked_id("--around", around)
    sheet = Table(
        Column("rank", right=True),
        Column("rating", right=True, style="bold"),
        Column("games", right=True),
        Column("player"),
    )

    def show(places: list[LeaderboardRow]) -> None:
        if json:
            for place in places:
                print_json(asdict(place))
            return
        sheet.add([(str(p.rank), format_number(p.rating), str(p.games), p.player) for p in places])

    async def act(redis: Redis) -> None:
        from match_ratings_worker import queries

        if around is not None:
            places = await queries.rows_around(redis, keys, chosen.system, around, top)
            if not places:
                raise CommandError(
                    f"player {around} is not on the leaderboard of {chosen.name}", ExitCode.FAILED
                )
            show(places)
            return
        nobody = True
        async for places in queries.leaderboard(redis, keys, chosen.system, top):
            show(places)
            nobody = False
        if nobody:
            print_note(f"nobody is on the leaderboard of {chosen.name} yet")

    run(site.settings.redis_url, act)


def player(
    player_id: Annotated[str, typer.Argument(metavar="PLAYER", help="The player's id.")],
    count: Annotated[
        int,
        integer_option("--changes", 0, 1000, help="How many of the last changes."),
    ] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print a player's rating, rank, games, the K that a game now would have, and the last changes."""
    site = load_installation()
    chosen, keys = site.named(ladder)
    checked_id("PLAYER", player_id)

    async def act(redis: Redis) -> tuple[Standing, list[RatingUpdated]]:
        from match_ratings_worker import queries

        now = await queries.server_time(redis, keys.inbox)
        standing = await queries.standing(redis, keys, chosen.system, player_id, now)
        if standing is None:
            raise CommandError(f"player {player_id} is not known on ladder {chosen.name}", ExitCode.FAILED)
        with archived(site, chosen.name) as shelf, spinner("Looking through the ledger"):
            changes = await queries.changes(redis, keys, player_id, standing.sequence, count, shelf)
        return standing, changes

    standing, changes = run(site.settings.redis_url, act)
    if json:
        events = [{"id": event.id, **event.model_dump(mode="json", exclude_none=True)} for event in changes]
        print_json(
            {"ladder": chosen.name, "system": chosen.system.name, **asdict(standing), "changes": events}
        )
        return
    print_heading(f"{player_id} on ladder {chosen.name}")
    ranked = f"{standing.rank} of {standing.listed}" if standing.rank else "not on the leaderboard"
    pairs = [("rating", format_number(standing.rating)), ("rank", ranked)]
    pairs += [(name.replace("_", " "), f"{value:g}") for name, value in standing.figures.items()]
    pairs += [
        ("ranked games", f"{standing.games}, {standing.recent_games} of them in the last 7 days"),
        ("last game", format_time(standing.last_game)),
        ("changes", str(standing.sequence)),
    ]
    if standing.k is not None:
        pairs.insert(-2, ("K now", format_number(standing.k)))
    print_fields(pairs)
    if changes:
        print()
        _print_changes(player_id, changes)


def _print_changes(player_id: str, changes: list[RatingUpdated]) -> None:
    rows = []
    for event in changes:
        own = next(part for part in event.players if part.player == player_id)
        others = [part.player for part in event.players if part is not own]
        rows.append(
            (
                str(own.sequence),
                format_time(event.finished_at),
                event.cause.value,
                format_change(own.change),
                format_number(own.after),
                format_number(own.k),
                _result(own.score, late=event.late),
                others[0] if len(others) == 1 else "-",
                event.match_id or event.tournament_id or event.id or "-",
            )
        )
    columns: list[Any] = [Column("#", right=True), Column("finished"), Column("cause")]
    columns += [
        Column("change", right=True),
        Column("rating", right=True, style="bold"),
        Column("K", right=True),
    ]
    columns += [Column("result"), Column("opponent"), Column("id")]
    Table(*columns).add(rows)


def _result(score: float | None, *, late: bool) -> str:
    words: dict[float | None, str] = {1: "won", 0: "lost", 0.5: "drew", None: "-"}
    return words.get(score, format_number(score)) + (" (late)" if late else "")
