"""`void`: take back one match, or the matches of a player who cheated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.commands.void_player import Several, void_player
from match_ratings_worker.cli.console import Column, Sheet, busy, heading, number, print_json, signed
from match_ratings_worker.cli.installation import (
    NOT_FOUND,
    WRONG_INPUT,
    CommandError,
    JsonOption,
    LadderOption,
    checked_id,
    load_installation,
    whole_number,
)
from match_ratings_worker.cli.options import WhoOption, WhyOption, YesOption, reason
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.voids import Outcome

__all__ = ["void"]


def void(
    why: WhyOption,
    match_id: Annotated[
        str | None, typer.Argument(metavar="MATCH", help="The match's id; or --player for several.")
    ] = None,
    player: Annotated[
        str | None, typer.Option("--player", metavar="PLAYER", help="Take back this player's matches.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Those that finished from then on: a time, a day, or 7d."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="And before then; now by default.")
    ] = None,
    who: WhoOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: YesOption = False,
    patience: Annotated[
        int,
        typer.Option(
            "--wait",
            parser=whole_number("--wait", 0, 3600),
            metavar="SECONDS",
            help="Give up when for so long nothing happens.",
        ),
    ] = 10,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Take a rated match back: exactly its changes, from both players, and the game out of their windows.

    A worker does it when the matches before it are rated; the event has the cause `void`. A match that
    was taken back already stays so (exit code 0). Exit code 1: it is not known, was not rated, its event
    is no longer in Redis, the rules refuse it, or no worker has done it yet (it will, when one runs).

    With --player and --since all matches of a player are taken back, newest first, and what the
    opponents get back is summed up; it asks before it does.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)
    if site.settings.shadow:
        raise CommandError(
            "RATINGS_SHADOW: a shadow takes nothing back; do it on the ladder itself", WRONG_INPUT
        )
    if (match_id is None) == (player is None):
        raise CommandError("MATCH: give one match, or --player and --since for several", WRONG_INPUT)
    text = reason(why, who)
    if player is not None:
        if since is None:
            raise CommandError("--since: it is required with --player", WRONG_INPUT)
        several = Several(checked_id("--player", player), since, until, text, patience)
        void_player(site, chosen, keys, several, dry_run=dry_run, yes=yes, json=json)
        return
    if since is not None or until is not None:
        raise CommandError("--since: it goes with --player, not with one match", WRONG_INPUT)
    wanted = checked_id("MATCH", match_id or "")

    async def act(redis: Redis) -> tuple[Outcome, bool]:
        from match_ratings_worker import voids
        from match_ratings_worker.queries import has_worker

        with busy("Looking for the match"):
            found = await voids.find(redis, keys, wanted)
            if found.verdict is not voids.Verdict.RATED or found.match is None:
                return found, False
            refused = await voids.refusals(redis, keys, chosen.system, [found.match])
        if wanted in refused:
            return voids.Outcome(wanted, voids.Verdict.REFUSED, found.match, detail=refused[wanted]), False
        if dry_run:
            return found, False
        with busy("Waiting for a worker"):
            (found,) = await voids.void_matches(redis, keys, [found.match], text, patience=patience)
        return found, not await has_worker(redis, keys, int(site.settings.idle_seconds * 1000))

    outcome, idle = run(site.settings.redis_url, act)
    done = outcome.verdict.done or (dry_run and outcome.verdict.value == "rated")
    if json:
        print_json({"ladder": chosen.name, "dry_run": dry_run, **outcome.document()})
        if not done:
            raise typer.Exit(NOT_FOUND)
    elif done:
        _print(outcome, chosen.name)
    else:
        raise CommandError(f"{wanted} on ladder {chosen.name} {_why_not(outcome, idle=idle)}", NOT_FOUND)


def _print(outcome: Outcome, ladder: str) -> None:
    name = f"{outcome.match_id} on ladder {ladder}"
    void = outcome.void
    if void is not None:
        how = "was taken back before" if outcome.verdict.value == "already-voided" else "is taken back"
        heading(f"{name} {how}, as event {void.id}: {void.why}")
        sheet = Sheet(
            Column("before", right=True),
            Column("change", right=True),
            Column("after", right=True),
            Column("player"),
        )
        sheet.add(
            (number(part.before), signed(part.change), number(part.after), part.player)
            for part in void.players
        )
    elif outcome.verdict.done or outcome.match is None:
        heading(f"{name} was taken back; that event is no longer kept")
    else:
        heading(f"{name} would be taken back")
        sheet = Sheet(Column("change", right=True), Column("player"))
        sheet.add((signed(-part.change), part.player) for part in outcome.match.players)


def _why_not(outcome: Outcome, *, idle: bool) -> str:
    if outcome.verdict.value == "waiting":
        why = "no worker is running" if idle else "the workers have not come to it"
        return f"is not taken back yet: {why}; the message {outcome.message_id} waits in the inbox for them"
    if outcome.verdict.value == "unknown":
        return "is not known: not in the inbox, the ledger or the dead letters"
    if outcome.verdict.value == "not-rated":
        return f"was not rated: {outcome.detail}; there is nothing to take back"
    return f"cannot be taken back: {outcome.detail}"
