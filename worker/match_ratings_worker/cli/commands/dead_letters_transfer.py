"""`dead-letters export` and `import`: take dead letters away as JSON lines, and bring them back."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO

import typer

from match_ratings_worker.cli.console import note, print_json
from match_ratings_worker.cli.dead_letter_options import (
    BeforeOption,
    IdsArgument,
    MatchOption,
    PlayerOption,
    ReasonOption,
    SinceOption,
    carry_out,
    meant,
    setup_of,
)
from match_ratings_worker.cli.input_files import Wrong, opened
from match_ratings_worker.cli.installation import (
    WRONG_INPUT,
    CommandError,
    JsonOption,
    LadderOption,
    load_installation,
)
from match_ratings_worker.cli.progress import steps
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Record

__all__ = ["export", "import_letters"]

#: Letters that are put back in one step.
_STEP = 100


def export(
    ids: IdsArgument = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A new file; - for standard output.")
    ] = "-",
    reasons: ReasonOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    player: PlayerOption = None,
    match_id: MatchOption = None,
    ladder: LadderOption = None,
) -> None:
    """Write dead letters, newest first, one JSON object on each line; without ids or filters all.

    They stay where they are; discard takes them out. The message is text in `message`, or in base 64 in
    `message_base64` if it is not UTF-8.
    """
    where = meant(ids, reasons, since, before, player, match_id)
    site = load_installation()
    setup = setup_of(site, ladder)

    async def act(redis: Redis) -> int:
        from json import dumps

        from match_ratings_worker.dead_letters import Letters, record_of

        count = 0
        letters = Letters(redis, setup)
        until, total = await letters.newest(), await letters.count()
        with _writing(output) as file, steps() as tell:
            async for letter in letters.find(where, until=until):
                file.write(dumps(record_of(letter, setup.ladder), ensure_ascii=True) + "\n")
                count += 1
                tell("Exporting", count, total)
        return count

    note(f"dead letters exported: {carry_out(site, act)}")


@contextmanager
def _writing(name: str) -> Iterator[IO[str]]:

    if name == "-":
        yield sys.stdout
        return
    try:
        file = Path(name).open("x", encoding="ascii")  # noqa: SIM115 - only opening may be the user's mistake
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"--output: {quote(name, 200)} cannot be written: {why}", WRONG_INPUT) from None
    with file:
        yield file


def import_letters(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - for standard input.")],
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Put exported dead letters back among the dead letters of their ladder.

    The file is checked whole before anything is written. A letter that is still there, or was put back
    before, is left out: importing a file again does nothing.
    """
    site = load_installation()
    setup = setup_of(site, ladder)

    async def act(redis: Redis, source: BinaryIO) -> Counter[str]:
        from match_ratings_worker.dead_letters import Letters

        letters = Letters(redis, setup)
        found: Counter[str] = Counter()
        step: list[Record] = []

        async def put() -> None:
            for new_id in await letters.restore([(item.fingerprint(), item.letter()) for item in step]):
                found["there" if new_id == "=" else "before" if not new_id else "restored"] += 1
            step.clear()

        for record in _records(source, setup.ladder):
            step.append(record)
            if len(step) == _STEP:
                await put()
        if step:
            await put()
        return found

    with opened(file) as (source, _):
        _check(source, setup.ladder)
        source.seek(0)
        found = carry_out(site, lambda redis: act(redis, source))
    if json:
        names = ("restored", "before", "there")
        print_json({name: found[name] for name in names})
        return
    text = f"dead letters put back: {found['restored']}"
    text += f"; put back before: {found['before']}" if found["before"] else ""
    print(text + (f"; still there: {found['there']}" if found["there"] else ""))


def _check(source: BinaryIO, ladder: str) -> None:
    """Raises Fault when any line of the file is wrong."""
    from match_ratings_worker.dead_letters import BadRecord, Record

    wrong, count = Wrong(), 0
    for number, line in _lines(source):
        count += 1
        try:
            Record.read(line, ladder)
        except BadRecord as error:
            wrong.add(number, str(error))
    wrong.refuse(count, "nothing was put back")


def _records(source: BinaryIO, ladder: str) -> Iterator[Record]:
    from match_ratings_worker.dead_letters import Record

    for _, line in _lines(source):
        yield Record.read(line, ladder)


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that have something on them, and their numbers; one is at most as long as a letter."""
    for number, line in enumerate(source, 1):
        if line.strip():
            yield number, line
