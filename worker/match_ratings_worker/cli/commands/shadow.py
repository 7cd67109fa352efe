"""`shadow`: the ratings of workers that run beside another rater."""

from __future__ import annotations

import typer

from match_ratings_worker.cli.change_options import YesOption, confirm
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.migration import Shadow, ShadowRunning
from match_ratings_worker.storage import LadderHandle

app = typer.Typer(no_args_is_help=True, help="Clear a ladder's shadow.")


@app.callback()
def _group() -> None:
    """Clear a ladder's shadow, which worker --shadow rates beside another rater."""


@app.command("clear", short_help="Delete a shadow with all its ratings.")
def clear(yes: YesOption = False, ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Delete a ladder's shadow: its ratings, ledger, dead letters and settings.

    Stop its workers first. Matches that wait in the inbox stay there. After that live workers, which
    refuse the ladder until then, may rate it. Run compare before: nothing of the shadow is kept.
    """
    site = load_installation()
    name = site.ladder(ladder).name

    async def act(handle: LadderHandle) -> int:
        shadow = Shadow(handle.redis, name)
        if not yes:
            found = await shadow.contents()
            print_note(
                f"The shadow of ladder {name}: {found.players} players on the leaderboard, "
                f"{found.events} events, {found.dead_letters} dead letters."
            )
            confirm("Delete all of it?")
        try:
            with spinner("Deleting"):
                return await shadow.clear(handle.idle_ms)
        except ShadowRunning as error:
            text = f"the shadow of ladder {name} has running workers, stop them first: {error}"
            raise CommandError(text, ExitCode.FAILED) from None

    count = run_on_ladder(site, ladder, act)
    if json:
        print_json({"ladder": name, "keys": count})
    else:
        print(f"shadow of {name}: {count} keys deleted")
