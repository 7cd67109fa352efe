"""`void`: take back one match, or the matches of a player who cheated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.commands.common import (
    NOT_FOUND,
    WRONG_INPUT,
    Fault,
    JsonOption,
    LadderOption,
    checked_id,
    load_site,
    whole_number,
)
from worker.commands.options import WhoOption, WhyOption, YesOption, reason
from worker.commands.output import Column, Sheet, busy, heading, number, print_json, signed
from worker.commands.server import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from worker.voids import Outcome

__all__ = ["document", "void"]

#: Verdicts that are what was asked for.
_DONE = ("voided", "already-voided")


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
    site = load_site()
    chosen, keys = site.named(ladder)
    if site.settings.shadow:
        raise Fault(
            "RATINGS_SHADOW: a shadow takes nothing back; it follows what its ladder does", WRONG_INPUT
        )
    if (match_id is None) == (player is None):
        raise Fault("MATCH: give one match, or --player and --since for several", WRONG_INPUT)
    text = reason(why, who)
    if player is not None:
        from worker.commands.void_player import void_player

        void_player(
            site, chosen, keys, checked_id("--player", player), since, until, text,
            dry_run=dry_run, yes=yes, patience=patience, json=json,
        )  # fmt: skip
        return
    assert match_id is not None
    checked_id("MATCH", match_id)
    if since is not None or until is not None:
        raise Fault("--since: it goes with --player, not with one match", WRONG_INPUT)

    async def act(redis: Redis) -> tuple[Outcome, bool]:
        from worker import voids
        from worker.queries import has_worker

        with busy("Looking for the match"):
            found = await voids.find(redis, keys, match_id)
            if found.verdict != voids.Verdict.RATED or found.match is None:
                return found, False
            refused = await voids.refusals(redis, keys, chosen.system, [found.match])
        if match_id in refused:
            return voids.Outcome(
                match_id, voids.Verdict.REFUSED, found.match, detail=refused[match_id]
            ), False
        if dry_run:
            return found, False
        with busy("Waiting for a worker"):
            sent = [outcome async for page in voids.send(redis, [found.match], text) for outcome in page]
            async for (outcome,) in voids.wait(redis, keys, sent, patience=patience):
                found = outcome
        return found, not await has_worker(redis, keys, int(site.settings.idle_seconds * 1000))

    outcome, idle = run(site.settings.redis_url, act)
    done = outcome.verdict in _DONE or (dry_run and outcome.verdict == "rated")
    if json:
        print_json({"ladder": chosen.name, **document(outcome)})
    elif done:
        _print(outcome, chosen.name)
    if not done:
        if json:
            raise typer.Exit(NOT_FOUND)
        raise Fault(f"{outcome.match_id} on ladder {chosen.name} {_why_not(outcome, idle=idle)}", NOT_FOUND)


def document(outcome: Outcome) -> dict[str, Any]:
    """An outcome for --json."""
    found: dict[str, Any] = {"match_id": outcome.match_id, "outcome": outcome.verdict.value}
    if outcome.detail:
        found["detail"] = outcome.detail
    if outcome.match is not None:
        found["match_event"] = outcome.match.id
    if outcome.message_id:
        found["message_id"] = outcome.message_id
    if outcome.void is not None:
        found |= {"void_event": outcome.void.id, "why": outcome.void.why}
        found["players"] = [
            {"player": part.player, "before": part.before, "change": part.change, "after": part.after}
            for part in outcome.void.players
        ]
    return found


def _print(outcome: Outcome, ladder: str) -> None:
    name = f"{outcome.match_id} on ladder {ladder}"
    if outcome.void is None:
        if outcome.match is None or outcome.verdict in _DONE:
            heading(f"{name} is taken back")
            return
        heading(f"{name} would be taken back")
        sheet = Sheet(Column("change", right=True), Column("player"))
        sheet.add((signed(-part.change), part.player) for part in outcome.match.players)
        return
    already = "was taken back before" if outcome.verdict == "already-voided" else "is taken back"
    heading(f"{name} {already}, as event {outcome.void.id}: {outcome.void.why}")
    sheet = Sheet(
        Column("before", right=True),
        Column("change", right=True),
        Column("after", right=True),
        Column("player"),
    )
    sheet.add(
        (number(part.before), signed(part.change), number(part.after), part.player)
        for part in outcome.void.players
    )


def _why_not(outcome: Outcome, *, idle: bool) -> str:
    if outcome.verdict == "waiting":
        why = "no worker is running" if idle else "the workers have not come to it"
        return f"is not taken back yet: {why}; the message {outcome.message_id} waits in the inbox for them"
    texts = {
        "unknown": "is not known: not in the inbox, the ledger or the dead letters",
        "not-rated": f"was not rated: {outcome.detail}; there is nothing to take back",
        "not-kept": f"cannot be taken back: {outcome.detail}",
        "refused": f"cannot be taken back: {outcome.detail}",
    }
    return texts.get(outcome.verdict.value, outcome.verdict.value)
