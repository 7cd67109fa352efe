"""`shadow`: what rates beside another rater."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from match_ratings_worker.cli.console import print_json, print_note
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.options import YesOption, ask
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Look after what rates beside another rater.")


@app.callback()
def _group() -> None:
    """Look after what rates beside another rater: worker --shadow."""


@app.command("clear", short_help="Drop a shadow and all it has rated.")
def clear(
    yes: YesOption = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Drop a ladder's shadow: its ratings, ledger, dead letters and settings.

    Stop its workers first. Matches that wait in the inbox stay there. The ladder is then free for
    workers that are authoritative, which until then refuse it. Run compare before: nothing of the
    shadow is kept.
    """
    site = load_installation()
    name = site.ladder(ladder).name
    idle = int(site.settings.idle_seconds * 1000)

    async def act(redis: Redis) -> int:
        from match_ratings_worker.migration.clear_shadow import Shadow, StillRunning

        shadow = Shadow(redis, name)
        if not yes:
            found = await shadow.contents()
            print_note(
                f"The shadow of ladder {name}: {found.players} players on the leaderboard, "
                f"{found.events} events, {found.dead_letters} dead letters."
            )
            ask("Drop all of it?")
        try:
            with spinner("Dropping"):
                return await shadow.clear(idle)
        except StillRunning as error:
            text = f"the shadow of ladder {name} has running workers, stop them first: {error}"
            raise CommandError(text, ExitCode.FAILED) from None

    count = run(site.settings.redis_url, act)
    if json:
        print_json({"ladder": name, "keys": count})
    else:
        print(f"shadow of {name}: {count} keys dropped")
