"""`void`: void one match, or the matches of a player who cheated."""

from __future__ import annotations

from typing import Annotated

import typer

from match_ratings_worker.cli.change_options import ByOption, WhyOption, YesOption, signed_reason
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_change,
    format_number,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import id_argument, id_option, integer_option
from match_ratings_worker.cli.progress import spinner
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.storage import LadderHandle, has_worker
from match_ratings_worker.voids import VoidResult, VoidStatus, find_voidable_match, void_match

from .void_player import PlayerVoidRequest, void_player


def void(
    why: WhyOption,
    match_id: Annotated[
        str | None, id_argument("MATCH", help="The match's id; or --player for several.")
    ] = None,
    player: Annotated[str | None, id_option("--player", help="Void this player's matches.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Those that finished from then on: a time, a day, or 7d."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="And before then; now by default.")
    ] = None,
    by: ByOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be voided.")] = False,
    yes: YesOption = False,
    timeout: Annotated[
        int,
        integer_option(
            "--timeout", 0, 3600, metavar="SECONDS", help="Give up after this time without a result."
        ),
    ] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Void a rated match: undo its changes, for both players, and remove the game from their windows.

    A worker does it when the matches before it are rated; the event has the cause `void`. Voiding a match
    again changes nothing (exit code 0). Exit code 1: it is not known, was not rated, its event is no
    longer in Redis, the rules refuse it, or no worker has done it yet (one will, once it runs).

    With --player and --since all matches of a player are voided, newest first, and the points that the
    opponents get back are summed up; it asks first.
    """
    installation = load_installation()
    name = installation.ladder(ladder).name
    if installation.settings.shadow:
        text = "RATINGS_SHADOW: a shadow voids nothing; do it on the ladder itself"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if (match_id is None) == (player is None):
        raise CommandError("MATCH: give one match, or --player and --since for several", ExitCode.WRONG_INPUT)
    signed_why = signed_reason(why, by)
    if player is not None:
        if since is None:
            raise CommandError("--since: it is required with --player", ExitCode.WRONG_INPUT)
        request = PlayerVoidRequest(player, since, until, signed_why, timeout)
        void_player(installation, name, request, dry_run=dry_run, yes=yes, json=json)
        return
    if since is not None or until is not None:
        raise CommandError("--since: it goes with --player, not with one match", ExitCode.WRONG_INPUT)
    wanted = match_id or ""

    async def act(handle: LadderHandle) -> tuple[VoidResult, bool]:
        if dry_run:
            with spinner("Looking for the match"):
                return await find_voidable_match(handle, wanted), False
        with spinner("Voiding the match"):
            result = await void_match(handle, wanted, signed_why, timeout=timeout)
        return result, await has_worker(handle.redis, handle.keys, handle.idle_ms)

    result, worker_runs = run_on_ladder(installation, ladder, act)
    done = result.status.done or (dry_run and result.status is VoidStatus.RATED)
    if json:
        print_json({"ladder": name, "dry_run": dry_run, **result.document()})
        if not done:
            raise typer.Exit(ExitCode.FAILED)
    elif done:
        _print(result, name)
    else:
        raise CommandError(
            f"{wanted} on ladder {name} {_why_not(result, worker_runs=worker_runs)}", ExitCode.FAILED
        )


def _print(result: VoidResult, ladder: str) -> None:
    name = f"{result.match_id} on ladder {ladder}"
    void = result.void
    if void is not None:
        how = "was voided before" if result.status is VoidStatus.ALREADY else "is voided"
        print_heading(f"{name} {how}, as event {void.id}: {void.why}")
        sheet = Table(
            Column("before", right=True),
            Column("change", right=True),
            Column("after", right=True),
            Column("player"),
        )
        sheet.add(
            (format_number(part.before), format_change(part.change), format_number(part.after), part.player)
            for part in void.players
        )
    elif result.status.done or result.match is None:
        print_heading(f"{name} was voided; that event is no longer kept")
    else:
        print_heading(f"{name} would be voided")
        sheet = Table(Column("change", right=True), Column("player"))
        sheet.add((format_change(-part.change), part.player) for part in result.match.players)


def _why_not(result: VoidResult, *, worker_runs: bool) -> str:
    if result.status is VoidStatus.WAITING:
        why = "the workers have not come to it" if worker_runs else "no worker is running"
        return f"is not voided yet: {why}; the message {result.message_id} waits in the inbox for them"
    if result.status is VoidStatus.UNKNOWN:
        return "is not known: not in the inbox, the ledger or the dead letters"
    if result.status is VoidStatus.NOT_RATED:
        return f"was not rated: {result.detail}; there is nothing to void"
    return f"cannot be voided: {result.detail}"
