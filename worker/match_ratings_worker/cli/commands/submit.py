"""`submit`: send matches from a file of JSON lines to their ladders' inboxes."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from match_ratings_worker.cli.console import note, print_json, progress
from match_ratings_worker.cli.installation import (
    WRONG_INPUT,
    CommandError,
    Installation,
    JsonOption,
    LadderOption,
    load_installation,
)
from match_ratings_worker.cli.line_batches import LONGEST, Batch, Line, batches
from match_ratings_worker.cli.redis_errors import connection, refusals, unavailable
from match_ratings_worker.text import quote
from match_ratings_worker.units import now_ms

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["submit"]

#: Wrong lines that are reported one by one when nothing is sent because of them.
_REPORTED = 20

#: Told how many bytes have been read.
Advance = Callable[[int], None]


def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One message on each line; - for standard input.")
    ],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Report wrong lines, send the others.")
    ] = False,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Send all lines unchecked to one ladder, to try dead letters.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Send finished matches, tournaments and voids, one JSON object on each line, to their ladders.

    A file is checked whole before anything is sent: if a line is wrong, nothing is. What comes by
    standard input or a pipe is sent as it comes, up to the first wrong line. Each message goes to the
    ladder that it names, which must be configured; with --ladder, all must be for that one. Sending a
    file again is safe: each match has one effect.
    """
    if skip_bad and as_is:
        raise CommandError(
            "--skip-bad: it makes no sense with --as-is, which sends wrong lines too", WRONG_INPUT
        )
    site = load_installation()
    only = site.ladder(ladder).name if as_is or ladder is not None else None
    # Between the batches no loop runs, so that Ctrl-C ends a read from standard input at once.
    with _opened(file) as (source, size), asyncio.Runner() as runner:
        sender = _Sender(site, runner, _Gate(site, only, as_is=as_is))
        try:
            sender.run(source, size, whole=size is not None and not as_is and not skip_bad, skip_bad=skip_bad)
        except KeyboardInterrupt:
            note(f"match-ratings: interrupted; {sender.confirmed()}")
            raise
        finally:
            sender.close()
    if json:
        print_json({"sent": sender.sent.total(), "skipped": sender.skipped, "ladders": dict(sender.sent)})
    else:
        print(sender.summary())


@contextmanager
def _opened(name: str) -> Iterator[tuple[BufferedReader, int | None]]:
    """The stream to read, and its size in bytes if it is a regular file."""

    if name == "-":
        if sys.stdin is None:
            raise CommandError("FILE: standard input is closed", WRONG_INPUT)
        yield cast(BufferedReader, sys.stdin.buffer), None
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - only opening may be the user's mistake
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"FILE: {quote(name, 200)} cannot be read: {why}", WRONG_INPUT) from None
    with source:
        info = os.fstat(source.fileno())
        yield source, info.st_size if stat.S_ISREG(info.st_mode) else None


class _Checked(NamedTuple):
    """Where a line is to be sent, or what is wrong with it."""

    ladder: str
    problem: str = ""


class _Gate:
    """Says of a line what the workers would: where it belongs, or why it cannot be rated."""

    def __init__(self, site: Installation, only: str | None, *, as_is: bool) -> None:
        from match_ratings_worker.pipeline import validate_message as validation

        self._validation, self._quote = validation, quote
        self._ladders = site.ladders
        self.some_ladder = next(iter(site.ladders))
        self._horizon = site.settings.horizon_ms
        self._only = only
        self._as_is = as_is
        #: How far the server's clock is ahead of ours, in ms.
        self.ahead = 0

    def check(self, line: Line) -> _Checked:
        import orjson

        if line.raw is None:
            return _Checked("", f"line {line.number}: message: more than {LONGEST} bytes")
        if self._as_is:
            return _Checked(self._only or "")
        try:
            data = orjson.loads(line.raw)
        except orjson.JSONDecodeError:
            data = None
        data = data if isinstance(data, dict) else {}
        named = data.get("ladder")
        ladder = self._only or (named if isinstance(named, str) else "")
        from match_ratings.messages import MESSAGE_TYPES, MatchFinished

        found = self._validation.read_message(
            line.raw,
            ladder=ladder,
            kind=MESSAGE_TYPES.get(str(data.get("type")), MatchFinished).kind,
            now=now_ms() + self.ahead,
            horizon=self._horizon,
        )
        problem = found.detail if isinstance(found, self._validation.Problem) else ""
        if not problem and ladder not in self._ladders:
            shown, known = self._quote(ladder), ", ".join(self._ladders)
            problem = f"ladder: {shown} is not configured; use one of {known}"
        return _Checked(ladder, f"line {line.number}: {problem}" if problem else "")


class _Sender:
    """Sends lines in batches, and keeps count."""

    def __init__(self, site: Installation, runner: asyncio.Runner, gate: _Gate) -> None:
        #: Ladder -> messages that Redis has confirmed.
        self.sent: Counter[str] = Counter()
        #: Wrong lines that were left out.
        self.skipped = 0
        self._url = site.settings.redis_url
        self._redis: Redis = connection(self._url)
        self._runner = runner
        self._gate = gate

    def run(self, source: BufferedReader, size: int | None, *, whole: bool, skip_bad: bool) -> None:
        """Checks (if `whole`, everything beforehand) and sends. Raises Fault."""
        from match_ratings import inbox
        from match_ratings_worker.queries import server_time

        try:
            now = self._runner.run(server_time(self._redis, inbox(self._gate.some_ladder)))
            self._gate.ahead = now - now_ms()
            if whole:
                with progress("Checking", size) as advance:
                    self._check_all(source, advance)
                source.seek(0)
            with progress("Sending", size) as advance:
                self._send_all(source, advance, skip_bad=skip_bad)
        except refusals() as error:
            fault = unavailable(self._url, error)
            raise CommandError(f"{fault}; {self.confirmed()}", fault.code) from None

    def _check_all(self, source: BufferedReader, advance: Advance) -> None:
        lines, problems, wrong = 0, [], 0
        for batch in _read(source):
            for line in batch.lines:
                problem = self._gate.check(line).problem
                lines, wrong = lines + 1, wrong + bool(problem)
                if problem and wrong <= _REPORTED:
                    problems.append(problem)
            advance(batch.read)
        if not wrong:
            return
        if wrong == 1:
            raise CommandError(f"{problems[0]}; nothing was sent", WRONG_INPUT)
        for problem in problems:
            note(problem)
        raise CommandError(f"FILE: {wrong} of {lines} lines are wrong; nothing was sent", WRONG_INPUT)

    def _send_all(self, source: BufferedReader, advance: Advance, *, skip_bad: bool) -> None:
        for batch in _read(source):
            right: list[tuple[str, bytes]] = []
            wrong = ""
            for line in batch.lines:
                checked = self._gate.check(line)
                if not checked.problem:
                    right.append((checked.ladder, line.raw or b""))
                elif skip_bad:
                    self.skipped += 1
                    note(checked.problem)
                else:
                    wrong = checked.problem
                    break
            if right:
                self._runner.run(self._publish(right))
                self.sent.update(ladder for ladder, _ in right)
            if wrong:
                count = self.sent.total()
                rest = f"the {count} messages before it were sent" if count else "nothing was sent"
                raise CommandError(f"{wrong}; {rest}", WRONG_INPUT)
            advance(batch.read)

    async def _publish(self, messages: list[tuple[str, bytes]]) -> None:
        from match_ratings import FIELD, inbox

        async with self._redis.pipeline(transaction=False) as pipe:
            for ladder, raw in messages:
                pipe.xadd(inbox(ladder), {FIELD: raw})
            for reply in await pipe.execute(raise_on_error=False):
                if isinstance(reply, Exception):
                    raise reply

    def close(self) -> None:
        """Closes the connection."""
        self._runner.run(self._redis.aclose())

    def summary(self) -> str:
        """What was done, in one line."""
        ladders = ", ".join(f"{count} to {ladder}" for ladder, count in self.sent.items()) or "0"
        return f"messages sent: {ladders}" + (
            f"; wrong lines skipped: {self.skipped}" if self.skipped else ""
        )

    def confirmed(self) -> str:
        """What is certain when it ended in the middle, and what to do."""
        count = self.sent.total()
        return f"{count} messages are known to be sent; sending them again does no harm"


def _read(source: BufferedReader) -> Iterator[Batch]:
    found = batches(source)
    while True:
        try:
            batch = next(found, None)
        except OSError as error:
            raise CommandError(f"FILE: it cannot be read: {error.strerror}", WRONG_INPUT) from None
        if batch is None:
            return
        yield batch
