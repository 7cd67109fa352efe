"""`player`: a player's rating, rank and games, and the changes of the rating."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from match_ratings import RatingUpdated
from match_ratings_worker import queries
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    format_time,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import id_argument, integer_option
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.ledger import open_ledger, recent_changes
from match_ratings_worker.queries import Standing
from match_ratings_worker.storage import LadderHandle


def player(
    player_id: Annotated[str, id_argument("PLAYER", help="The player's id.")],
    count: Annotated[int, integer_option("--changes", 0, 1000, help="Number of changes to show.")] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Print a player's rating, rank, games, K for a game now, and the last changes."""
    site = load_installation()
    chosen = site.ladder(ladder)

    async def act(handle: LadderHandle) -> tuple[Standing, list[RatingUpdated]]:
        now = await queries.server_time(handle.redis, handle.keys.inbox)
        standing = await queries.standing(handle, player_id, now)
        if standing is None:
            text = f"player {player_id} is not known on ladder {handle.name}"
            raise CommandError(text, ExitCode.FAILED)
        with open_ledger(handle) as ledger, spinner("Searching the ledger"):
            return standing, await recent_changes(ledger, player_id, standing.sequence, count)

    standing, changes = run_on_ladder(site, ladder, act)
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
