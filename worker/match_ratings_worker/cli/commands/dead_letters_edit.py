"""`dead-letters edit` and `discard`: correct a message, or remove it for good."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from match_ratings_worker.cli.commands.dead_letters_show import describe_dry_run
from match_ratings_worker.cli.console import note, print_json
from match_ratings_worker.cli.dead_letter_options import (
    AllOption,
    IdArgument,
    WhyOption,
    checked_letter_id,
    require_selection,
    signed_by,
    with_filter_options,
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
from match_ratings_worker.cli.redis_errors import run_on_ladder
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from match_ratings_worker.dead_letters import DeadLetterFilter, EditResult
    from match_ratings_worker.storage.dead_letter_entries import DeadLetterEntry
    from match_ratings_worker.storage.ladder import LadderHandle

__all__ = ["discard", "edit"]


def edit(
    letter_id: IdArgument,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set a value, e.g. cube=2 or players.0=ada."),
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="PATH", help="Remove a value.")
    ] = None,
    why: WhyOption = None,
    by: WhoOption = None,
    force: Annotated[bool, typer.Option("--force", help="Store it even if it is still wrong.")] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Change the message of a dead letter: single values with --set and --unset, else in $EDITOR.

    A value is JSON, or else text. The result is checked first: if it is still wrong it is not stored (exit
    code 2), unless --force. The letter's history keeps the original message, author, time and reason. A
    letter that was edited has a new id; replay it then.
    """
    checked_letter_id(letter_id)
    installation = load_installation()
    name = installation.ladder(ladder).name

    async def get(handle: LadderHandle) -> DeadLetterEntry | None:
        from match_ratings_worker.dead_letters import DeadLetterStore

        [letter] = await DeadLetterStore(handle).get([letter_id])
        return letter

    letter = run_on_ladder(installation, ladder, get)
    if letter is None:
        raise CommandError(f"{letter_id} is no dead letter of ladder {name}", NOT_FOUND)
    message = _with_values(letter.message, values or (), removed or ())
    while True:
        if not values and not removed:
            message = _in_editor(message)
        if message == letter.message:
            raise CommandError("nothing was changed", WRONG_INPUT)
        author, why = signed_by(by, why)

        async def put(
            handle: LadderHandle, message: bytes = message, author: str = author, why: str = why
        ) -> EditResult:
            from match_ratings_worker.dead_letters import edit_dead_letter

            return await edit_dead_letter(handle, letter, message, by=author, why=why, force=force)

        edited = run_on_ladder(installation, ladder, put)
        if edited.new_id or edited.gone or values or removed or not sys.stdin.isatty():
            break
        note(f"it is still wrong: {edited.dry_run.detail}")
        if not typer.confirm("Edit it again?", default=True, err=True):
            break
    _report(letter_id, edited, json=json)


def _with_values(message: bytes, values: Sequence[str], removed: Sequence[str]) -> bytes:
    from match_ratings_worker.dead_letters import InvalidEdit, edited_message

    if not values and not removed:
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
        return edited_message(message, pairs, removed)
    except InvalidEdit as error:
        raise CommandError(str(error), WRONG_INPUT) from None


def _in_editor(message: bytes) -> bytes:
    """The message after somebody has edited it as a file, where JSON has several lines."""
    from match_ratings_worker.dead_letters import format_message, minify_message

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="match-ratings-") as folder:
        file = Path(folder) / "message.json"
        shown = format_message(message)
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
    return message if left == shown else minify_message(left)


def _report(letter_id: str, edited: EditResult, *, json: bool) -> None:
    if json:
        result = {"outcome": edited.dry_run.outcome.value, "detail": edited.dry_run.detail}
        print_json({"letter": letter_id, "new_id": edited.new_id or None, "replay_would_give": result})
    if edited.gone:
        raise CommandError(
            f"{letter_id} is no longer there: replayed, discarded, or edited by somebody", NOT_FOUND
        )
    if not edited.new_id:
        text = f"{letter_id} is still wrong and was not changed (--force stores it): {edited.dry_run.detail}"
        raise CommandError(text, WRONG_INPUT)
    if not json:
        print(f"{letter_id} is now {edited.new_id}")
        note(f"a replay would give: {describe_dry_run(edited.dry_run)}")


@with_filter_options()
def discard(
    where: DeadLetterFilter,
    every: AllOption = False,
    why: WhyOption = None,
    by: WhoOption = None,
    yes: YesOption = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Remove dead letters for good. They are kept, with author, time and reason, in the stream
    `ratings:{<ladder>}:discarded`, and nothing rates them any more.

    Say which: ids, filters, or --all. Where no ids are given it counts them and asks first.
    """
    require_selection(where, every=every)
    author, why = signed_by(by, why)
    installation = load_installation()
    name = installation.ladder(ladder).name

    async def count(handle: LadderHandle) -> tuple[int, str]:
        from match_ratings_worker.dead_letters import DeadLetterStore

        letters = DeadLetterStore(handle)
        until = await letters.newest_id()
        return (await letters.count_by_reason(where, until=until)).total(), until

    number, until = run_on_ladder(installation, ladder, count)
    if number and not where.ids and not yes:
        ask(f"Discard {number} dead letters of ladder {name}?")

    async def act(handle: LadderHandle) -> tuple[int, list[str]]:
        from match_ratings_worker.dead_letters import DeadLetterStore

        letters = DeadLetterStore(handle)
        if not where.ids:
            return await letters.discard_matching(where, until=until, by=author, why=why), []
        chosen = [letter.id async for letter in letters.find(where)]
        done = await letters.discard(chosen, by=author, why=why)
        return len(done), [letter_id for letter_id in where.ids if letter_id not in done]

    discarded, missing = run_on_ladder(installation, ladder, act)
    if json:
        print_json({"discarded": discarded, "missing": missing})
    else:
        print(f"discarded: {discarded}")
    if missing:
        text = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}: no such dead letter"
        raise CommandError(f"{text} of ladder {name}", NOT_FOUND)
