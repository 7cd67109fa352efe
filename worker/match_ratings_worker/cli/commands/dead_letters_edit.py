"""`dead-letters edit` and `discard`: put a message right, or take it out for good."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.commands.dead_letters_show import says
from match_ratings_worker.cli.console import note, print_json
from match_ratings_worker.cli.dead_letter_options import (
    AllOption,
    BeforeOption,
    IdArgument,
    IdsArgument,
    MatchOption,
    PlayerOption,
    ReasonOption,
    SinceOption,
    WhyOption,
    carry_out,
    checked_letter,
    meant,
    setup_of,
    some_meant,
    who_and_why,
)
from match_ratings_worker.cli.installation import (
    NOT_FOUND,
    WRONG_INPUT,
    CommandError,
    JsonOption,
    LadderOption,
    load_installation,
)
from match_ratings_worker.cli.options import WhoOption, YesOption, ask
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Edited
    from match_ratings_worker.queries import DeadLetterEntry

__all__ = ["discard", "edit"]


def edit(
    letter_id: IdArgument,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set a value, e.g. cube=2 or players.0=ada."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--unset", metavar="PATH", help="Take a value out.")
    ] = None,
    why: WhyOption = None,
    who: WhoOption = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Keep it also if it is still wrong.")] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Change the message of a dead letter: single values with --set and --unset, else in $EDITOR.

    A value is read as JSON if it is JSON, else as text. The result is checked before it is kept, and if
    it is still wrong it is not kept (exit code 2), unless --anyway. The message as it was, who, when and
    why stay in the letter's history. A letter that was edited has a new id; replay it then.
    """
    from match_ratings_worker.dead_letters import Letters
    from match_ratings_worker.dead_letters import edit as put_right

    checked_letter(letter_id)
    site = load_installation()
    setup = setup_of(site, ladder)

    async def get(redis: Redis) -> DeadLetterEntry | None:
        [letter] = await Letters(redis, setup).get([letter_id])
        return letter

    letter = carry_out(site, get)
    if letter is None:
        raise CommandError(f"{letter_id} is no dead letter of ladder {setup.ladder}", NOT_FOUND)
    message = _assigned(letter.message, values or (), without or ())
    while True:
        if not values and not without:
            message = _in_editor(message)
        if message == letter.message:
            raise CommandError("nothing was changed", WRONG_INPUT)
        by, reason = who_and_why(who, why)
        why = reason

        async def put(redis: Redis, message: bytes = message, by: str = by, reason: str = reason) -> Edited:
            letters = Letters(redis, setup)
            return await put_right(letters, setup, letter, message, who=by, why=reason, anyway=anyway)

        edited = carry_out(site, put)
        if edited.now or edited.gone or values or without or not sys.stdin.isatty():
            break
        note(f"it is still wrong: {edited.verdict.detail}")
        if not typer.confirm("Edit it again?", default=True, err=True):
            break
    _report(letter_id, edited, json=json)


def _assigned(message: bytes, values: list[str] | tuple[()], without: list[str] | tuple[()]) -> bytes:
    from match_ratings_worker.dead_letters import NotAllowed, assigned

    if not values and not without:
        return message
    pairs = []
    for text in values:
        path, found, value = text.partition("=")
        if not found or not path:
            raise CommandError(
                f"--set: {quote(text)} is not allowed; use PATH=VALUE, e.g. cube=2", WRONG_INPUT
            )
        pairs.append((path, value))
    try:
        return assigned(message, pairs, without)
    except NotAllowed as error:
        raise CommandError(str(error), WRONG_INPUT) from None


def _in_editor(message: bytes) -> bytes:
    """The message as somebody leaves it in an editor, where JSON is laid out over several lines."""
    from match_ratings_worker.dead_letters.edit_message import compact, laid_out

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="match-ratings-") as folder:
        file = Path(folder) / "message.json"
        shown = laid_out(message)
        file.write_bytes(shown)
        try:
            ended = subprocess.run([*shlex.split(command), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise CommandError(f"EDITOR: {command} cannot be run: {error}", WRONG_INPUT) from None
        if ended.returncode:
            raise CommandError(
                f"EDITOR: {command} ended with {ended.returncode}; nothing was changed", WRONG_INPUT
            )
        left = file.read_bytes()
    return message if left == shown else compact(left)


def _report(letter_id: str, edited: Edited, *, json: bool) -> None:
    if json:
        verdict = {"outcome": edited.verdict.outcome.value, "detail": edited.verdict.detail}
        print_json({"letter": letter_id, "now": edited.now or None, "replayed_now": verdict})
    if edited.gone:
        raise CommandError(
            f"{letter_id} is no longer there: replayed, discarded, or edited by somebody", NOT_FOUND
        )
    if not edited.now:
        text = f"{letter_id} is still wrong and was not changed (--anyway keeps it): {edited.verdict.detail}"
        raise CommandError(text, WRONG_INPUT)
    if not json:
        print(f"{letter_id} is now {edited.now}")
        note(f"replayed now: {says(edited.verdict)}")


def discard(
    ids: IdsArgument = None,
    reasons: ReasonOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    player: PlayerOption = None,
    match_id: MatchOption = None,
    every: AllOption = False,
    why: WhyOption = None,
    who: WhoOption = None,
    yes: YesOption = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Take dead letters out for good. They are kept, with who, when and why, in the stream
    `ratings:{<ladder>}:discarded`, and nothing rates them any more.

    Say which: ids, filters, or --all. Where no ids are given it counts them and asks first.
    """
    from match_ratings_worker.dead_letters import Letters

    where = some_meant(meant(ids, reasons, since, before, player, match_id), every=every)
    by, reason = who_and_why(who, why)
    site = load_installation()
    setup = setup_of(site, ladder)

    async def find(redis: Redis) -> tuple[int, str]:
        letters = Letters(redis, setup)
        until = await letters.newest()
        return (await letters.reasons(where, until=until)).total(), until

    count, until = carry_out(site, find)
    if count and not where.ids and not yes:
        ask(f"Discard {count} dead letters of ladder {setup.ladder}?")

    async def act(redis: Redis) -> tuple[int, list[str]]:
        letters = Letters(redis, setup)
        if not where.ids:
            return await letters.discard_all(where, until=until, who=by, why=reason), []
        taken = [letter.id async for letter in letters.find(where)]
        done = await letters.discard(taken, who=by, why=reason)
        return len(done), [letter_id for letter_id in where.ids if letter_id not in done]

    discarded, missing = carry_out(site, act)
    if json:
        print_json({"discarded": discarded, "missing": missing})
    else:
        print(f"discarded: {discarded}")
    if missing:
        text = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}: no such dead letter"
        raise CommandError(f"{text} of ladder {setup.ladder}", NOT_FOUND)
