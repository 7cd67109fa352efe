"""`submit`: send matches from a file of JSON lines to their ladders' inboxes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from io import BufferedReader
from typing import Annotated

import orjson
import typer
from redis.asyncio import Redis

from match_ratings import FIELD, inbox
from match_ratings.messages import MESSAGE_TYPES, MatchFinished
from match_ratings_worker.cli.configured_ladders import (
    Installation,
    JsonOption,
    LadderOption,
    load_installation,
)
from match_ratings_worker.cli.console import print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InputStream, InvalidLines, open_stream
from match_ratings_worker.cli.progress import ProgressCallback, progress_bar
from match_ratings_worker.cli.redis_errors import REDIS_ERRORS, unavailable
from match_ratings_worker.cli.run_with_redis import connect_or_fail
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.pipeline import Problem, read_message
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import server_time
from match_ratings_worker.text_lines import LONGEST_LINE, Line, LineBatch, line_batches
from match_ratings_worker.time_units import now_ms


def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One message on each line; - for standard input.")
    ],
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Report wrong lines, send the others.")
    ] = False,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Send all lines unchecked to one ladder, to try dead letters.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Send finished matches, tournaments and voids, one JSON object on each line, to their ladders.

    A file is checked whole before anything is sent: if a line is wrong, nothing is. Standard input and
    pipes are sent as they arrive, up to the first wrong line. Each message goes to the ladder that it
    names, which must be configured; with --ladder, all must be for that one. Sending a file again is
    safe: each match has one effect.
    """
    if skip_invalid and as_is:
        text = "--skip-invalid: it makes no sense with --as-is, which sends wrong lines too"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    installation = load_installation()
    only = installation.ladder(ladder).name if as_is or ladder is not None else None
    # Between the batches no loop runs, so that Ctrl-C ends a read from standard input at once.
    with open_stream(file) as source, asyncio.Runner() as runner:
        checker = _LineChecker(installation, only, as_is=as_is)
        submitter = _Submitter(installation, runner, checker, skip_invalid=skip_invalid)
        try:
            submitter.run(source, check_first=source.size is not None and not as_is and not skip_invalid)
        except KeyboardInterrupt:
            print_note(f"match-ratings: interrupted; {submitter.confirmed()}")
            raise
        finally:
            submitter.close()
    if json:
        sent, skipped = submitter.sent, submitter.skipped
        print_json({"sent": sent.total(), "skipped": skipped, "ladders": dict(sent)})
    else:
        print(submitter.summary())


class _LineChecker:
    """Checks a line as a worker would: finds its ladder, or the reason why it cannot be rated."""

    def __init__(self, installation: Installation, only: str | None, *, as_is: bool) -> None:
        self._ladders = installation.ladders
        self.any_ladder = next(iter(installation.ladders))
        self._horizon_ms = installation.settings.horizon_ms
        self._only = only
        self._as_is = as_is
        #: How far the server's clock is ahead of this machine's, in ms.
        self.clock_offset_ms = 0

    def check(self, line: Line) -> tuple[str, str]:
        """Return the line's ladder, and its problem or nothing."""
        if line.raw is None:
            return "", f"message: more than {LONGEST_LINE} bytes"
        if self._as_is:
            return self._only or "", ""
        try:
            data = orjson.loads(line.raw)
        except orjson.JSONDecodeError:
            data = None
        data = data if isinstance(data, dict) else {}
        named = data.get("ladder")
        ladder = self._only or (named if isinstance(named, str) else "")
        found = read_message(
            line.raw,
            ladder=ladder,
            kind=MESSAGE_TYPES.get(str(data.get("type")), MatchFinished).kind,
            now=now_ms() + self.clock_offset_ms,
            horizon=self._horizon_ms,
        )
        if isinstance(found, Problem):
            return ladder, found.detail
        if ladder not in self._ladders:
            known = ", ".join(self._ladders)
            return ladder, f"ladder: {quote(ladder)} is not configured; use one of {known}"
        return ladder, ""


class _Submitter:
    def __init__(
        self, installation: Installation, runner: asyncio.Runner, checker: _LineChecker, *, skip_invalid: bool
    ) -> None:
        #: Ladder -> messages that Redis has confirmed.
        self.sent: Counter[str] = Counter()
        #: Wrong lines that were left out.
        self.skipped = 0
        self._url = installation.settings.redis_url
        self._redis: Redis = connect_or_fail(self._url)
        self._runner = runner
        self._checker = checker
        self._skip_invalid = skip_invalid

    def run(self, source: InputStream, *, check_first: bool) -> None:
        """Send all lines, after a check of all if `check_first`; raise CommandError at a wrong line."""
        try:
            now = self._runner.run(server_time(self._redis, inbox(self._checker.any_ladder)))
            self._checker.clock_offset_ms = now - now_ms()
            with progress_bar(in_bytes=True) as progress:
                if check_first:
                    self._check_all(source, progress)
                    source.file.seek(0)
                self._send_all(source, progress)
        except REDIS_ERRORS as error:
            fault = unavailable(self._url, error)
            raise CommandError(f"{fault}; {self.confirmed()}", fault.code) from None

    def _check_all(self, source: InputStream, progress: ProgressCallback) -> None:
        invalid, lines = InvalidLines(prefix=""), 0
        for batch in _read(source.file):
            for line in batch.lines:
                lines += 1
                _, problem = self._checker.check(line)
                if problem:
                    invalid.add(line.number, problem)
            progress("Checking", batch.read, source.size)
        invalid.refuse(lines, "nothing was sent")

    def _send_all(self, source: InputStream, progress: ProgressCallback) -> None:
        for batch in _read(source.file):
            valid: list[tuple[str, bytes]] = []
            invalid = ""
            for line in batch.lines:
                ladder, problem = self._checker.check(line)
                if not problem:
                    valid.append((ladder, line.raw or b""))
                    continue
                problem = f"line {line.number}: {problem}"
                if not self._skip_invalid:
                    invalid = problem
                    break
                self.skipped += 1
                print_note(problem)
            if valid:
                self._runner.run(self._publish(valid))
                self.sent.update(ladder for ladder, _ in valid)
            if invalid:
                count = self.sent.total()
                rest = f"the {count} messages before it were sent" if count else "nothing was sent"
                raise CommandError(f"{invalid}; {rest}", ExitCode.WRONG_INPUT)
            progress("Sending", batch.read, source.size)

    async def _publish(self, messages: list[tuple[str, bytes]]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for ladder, raw in messages:
                pipe.xadd(inbox(ladder), {FIELD: raw})
            for reply in await pipe.execute(raise_on_error=False):
                if isinstance(reply, Exception):
                    raise reply

    def close(self) -> None:
        """Close the connection."""
        self._runner.run(self._redis.aclose())

    def summary(self) -> str:
        """One line: messages sent to each ladder, and wrong lines skipped."""
        ladders = ", ".join(f"{count} to {ladder}" for ladder, count in self.sent.items()) or "0"
        skipped = f"; wrong lines skipped: {self.skipped}" if self.skipped else ""
        return f"messages sent: {ladders}{skipped}"

    def confirmed(self) -> str:
        """The messages known to be sent, for a command that was interrupted."""
        return f"{self.sent.total()} messages are known to be sent; sending them again does no harm"


def _read(file: BufferedReader) -> Iterator[LineBatch]:
    batches = line_batches(file)
    while True:
        try:
            batch = next(batches, None)
        except OSError as error:
            text = f"FILE: it cannot be read: {error.strerror}"
            raise CommandError(text, ExitCode.WRONG_INPUT) from None
        if batch is None:
            return
        yield batch
