"""`dead-letters export` and `import`: write dead letters as JSON lines, and restore them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from json import dumps
from pathlib import Path
from typing import IO, Annotated, BinaryIO

import typer

from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import print_json
from match_ratings_worker.cli.dead_letter_options import with_filter_options
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InvalidLines, open_input
from match_ratings_worker.cli.progress import progress_bar
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.dead_letters import (
    DeadLetterFilter,
    DeadLetterStore,
    ExportedDeadLetter,
    InvalidExport,
    export_document,
)
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle

#: Letters restored in one step.
_STEP = 100


@with_filter_options()
def export(
    where: DeadLetterFilter,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A new file; - for standard output.")
    ] = "-",
    ladder: LadderOption = None,
) -> None:
    """Write dead letters, newest first, one JSON object on each line; without ids or filters all.

    They stay dead letters; discard removes them. The message is text in `message`, or base64 in
    `message_base64` if it is not UTF-8.
    """

    async def act(handle: LadderHandle) -> int:
        count = 0
        letters = DeadLetterStore(handle)
        until, total = await letters.newest_id(), await letters.count()
        with _writing(output) as file, progress_bar() as show_progress:
            async for letter in letters.find(where, until=until):
                file.write(dumps(export_document(letter, handle.name), ensure_ascii=True) + "\n")
                count += 1
                show_progress("Exporting", count, total)
        return count

    print_note(f"dead letters exported: {run_on_ladder(load_installation(), ladder, act)}")


@contextmanager
def _writing(name: str) -> Iterator[IO[str]]:
    if name == "-":
        yield sys.stdout
        return
    try:
        file = Path(name).open("x", encoding="ascii")  # noqa: SIM115 - only opening may be the user's mistake
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(
            f"--output: {quote(name, 200)} cannot be written: {why}", ExitCode.WRONG_INPUT
        ) from None
    with file:
        yield file


def restore(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file that export wrote; - for standard input.")
    ],
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Restore exported dead letters of this ladder.

    The whole file is checked before anything is written. A letter that still exists, or was restored
    before, is skipped: importing a file again does nothing.
    """
    installation = load_installation()
    name = installation.ladder(ladder).name

    async def act(handle: LadderHandle, source: BinaryIO) -> Counter[str]:
        letters = DeadLetterStore(handle)
        found: Counter[str] = Counter()
        exported = _exported(source, name)
        while page := list(islice(exported, _STEP)):
            for new_id in await letters.restore([(item.fingerprint(), item.entry()) for item in page]):
                found["there" if new_id == "=" else "before" if not new_id else "restored"] += 1
        return found

    with open_input(file) as (source, _):
        _check(source, name)
        source.seek(0)
        found = run_on_ladder(installation, ladder, lambda handle: act(handle, source))
    if json:
        print_json({item: found[item] for item in ("restored", "before", "there")})
        return
    text = f"dead letters restored: {found['restored']}"
    text += f"; restored before: {found['before']}" if found["before"] else ""
    print(text + (f"; still there: {found['there']}" if found["there"] else ""))


def _check(source: BinaryIO, ladder: str) -> None:
    """End the command when any line of the file is wrong."""
    wrong, count = InvalidLines(), 0
    for number, line in _lines(source):
        count += 1
        try:
            ExportedDeadLetter.read(line, ladder)
        except InvalidExport as error:
            wrong.add(number, str(error))
    wrong.refuse(count, "nothing was restored")


def _exported(source: BinaryIO, ladder: str) -> Iterator[ExportedDeadLetter]:
    for _, line in _lines(source):
        yield ExportedDeadLetter.read(line, ladder)


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbers and texts of the lines that are not empty."""
    for number, line in enumerate(source, 1):
        if line.strip():
            yield number, line
