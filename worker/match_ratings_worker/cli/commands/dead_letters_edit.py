"""`dead-letters edit`: correct the message of a dead letter."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from match_ratings_worker.cli.change_options import ByOption
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import print_json
from match_ratings_worker.cli.dead_letter_options import (
    IdArgument,
    OptionalWhyOption,
    checked_letter_id,
    signed_by,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode, refuse
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.dead_letters import (
    DeadLetterStore,
    EditResult,
    InvalidEdit,
    edit_dead_letter,
    edited_message,
    format_message,
    minify_message,
)
from match_ratings_worker.storage import DeadLetterEntry, LadderHandle

from .dead_letters_show import describe_dry_run


def edit(
    letter_id: IdArgument,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set a value, e.g. cube=2 or players.0=ada."),
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="PATH", help="Remove a value.")
    ] = None,
    why: OptionalWhyOption = None,
    by: ByOption = None,
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
        [letter] = await DeadLetterStore(handle).get([letter_id])
        return letter

    letter = run_on_ladder(installation, ladder, get)
    if letter is None:
        raise CommandError(f"{letter_id} is no dead letter of ladder {name}", ExitCode.FAILED)
    message = _with_values(letter.message, values or (), removed or ())
    while True:
        if not values and not removed:
            message = _in_editor(message)
        if message == letter.message:
            raise CommandError("nothing was changed", ExitCode.WRONG_INPUT)
        author, why = signed_by(by, why)

        async def put(
            handle: LadderHandle, message: bytes = message, author: str = author, why: str = why
        ) -> EditResult:
            return await edit_dead_letter(handle, letter, message, by=author, why=why, force=force)

        edited = run_on_ladder(installation, ladder, put)
        if edited.new_id or edited.gone or values or removed or not sys.stdin.isatty():
            break
        print_note(f"it is still wrong: {edited.dry_run.detail}")
        if not typer.confirm("Edit it again?", default=True, err=True):
            break
    _report(letter_id, edited, json=json)


def _with_values(message: bytes, values: Sequence[str], removed: Sequence[str]) -> bytes:
    if not values and not removed:
        return message
    pairs = []
    for text in values:
        path, found, value = text.partition("=")
        if not found or not path:
            refuse("--set", text, "use PATH=VALUE, e.g. cube=2")
        pairs.append((path, value))
    try:
        return edited_message(message, pairs, removed)
    except InvalidEdit as error:
        raise CommandError(str(error), ExitCode.WRONG_INPUT) from None


def _in_editor(message: bytes) -> bytes:
    """The message after somebody has edited it as a file, where JSON has several lines."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="match-ratings-") as folder:
        file = Path(folder) / "message.json"
        shown = format_message(message)
        file.write_bytes(shown)
        try:
            ended = subprocess.run([*shlex.split(command), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise CommandError(f"EDITOR: {command} cannot be run: {error}", ExitCode.WRONG_INPUT) from None
        if ended.returncode:
            raise CommandError(
                f"EDITOR: {command} ended with {ended.returncode}; nothing was changed", ExitCode.WRONG_INPUT
            )
        left = file.read_bytes()
    return message if left == shown else minify_message(left)


def _report(letter_id: str, edited: EditResult, *, json: bool) -> None:
    if json:
        result = {"outcome": edited.dry_run.outcome.value, "detail": edited.dry_run.detail}
        print_json({"letter": letter_id, "new_id": edited.new_id or None, "replay_would_give": result})
    if edited.gone:
        raise CommandError(
            f"{letter_id} is no longer there: replayed, discarded, or edited by somebody", ExitCode.FAILED
        )
    if not edited.new_id:
        text = f"{letter_id} is still wrong and was not changed (--force stores it): {edited.dry_run.detail}"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if not json:
        print(f"{letter_id} is now {edited.new_id}")
        print_note(f"a replay would give: {describe_dry_run(edited.dry_run)}")
