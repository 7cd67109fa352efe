"""`import`: import the players of another rater."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace as with_changes
from operator import itemgetter
from typing import Annotated, Any

import typer
from redis.asyncio import Redis

from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import format_number, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InputFile, InvalidLines, open_input
from match_ratings_worker.cli.progress import ProgressCallback, progress_bar
from match_ratings_worker.cli.redis_errors import REDIS_ERRORS, unavailable
from match_ratings_worker.cli.run_with_redis import run_with_redis
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.environment_variables import ladder_handle
from match_ratings_worker.migration import (
    Importer,
    ImportResult,
    ParsedLine,
    PlayerReader,
    PlayerRecord,
    csv_lines,
    json_lines,
)
from match_ratings_worker.pipeline import LadderStore
from match_ratings_worker.queries import server_time
from match_ratings_worker.safe_text import quote
from match_ratings_worker.storage import LadderHandle, open_pipelined

#: Lines between two updates of the progress bar.
_PAGE = 500
#: Refused players named one by one.
_REPORTED = 20


def import_players(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, or CSV if it ends in .csv; - for JSON lines from standard input.",
        ),
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite players who already have a rating here.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and show the result without writing.")
    ] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Into the ladder's shadow, to rate beside the other rater.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Import players from another rater: ratings, games played, and the recent ranked games.

    Each line has player, rating, games; and if known last_game, recent_games (a list of match_id and
    finished_at, those of the last week), and the rating system's own fields, such as rd. The whole file
    is checked before anything is written. Importing it again changes nothing, so after an interruption
    just run it again. Players who already have a different rating are skipped and named (exit code 1),
    unless --replace.
    """
    site = load_installation()
    settings, chosen = site.settings, site.ladder(ladder)
    with open_input(file) as source:

        async def act(redis: Redis) -> None:
            handle = ladder_handle(redis, settings, chosen)
            if shadow:
                handle = with_changes(handle, shadow=True)
            await job.run(handle, settings.redis_url)

        job = _Import(source, csv=file.lower().endswith(".csv"), replace=replace, dry=dry_run)
        try:
            run_with_redis(settings.redis_url, act)
        except KeyboardInterrupt:
            print_note(f"match-ratings: interrupted; {job.confirmed()}")
            raise
    about = {"ladder": chosen.name, "shadow": shadow or settings.shadow, "dry_run": dry_run}
    if json:
        print_json({**about, **job.document()})
    else:
        place = f"{chosen.name}'s shadow" if about["shadow"] else chosen.name
        print(f"players of {place}: {job.summary()}")
    job.report_refused()


class _Import:
    def __init__(self, source: InputFile, *, csv: bool, replace: bool, dry: bool) -> None:
        self._source, self._csv, self._replace, self._dry = source, csv, replace, dry
        #: Outcome -> players.
        self._counts: Counter[str] = Counter()
        self._refused: list[tuple[int, ImportResult]] = []
        self._seconds = 0.0

    async def run(self, ladder: LadderHandle, url: str) -> None:
        """Checks the file, then imports it into the ladder of a Redis. Raises CommandError."""
        reader = PlayerReader(ladder.system, await server_time(ladder.redis, ladder.keys.inbox))
        with progress_bar(in_bytes=True) as progress:
            await self._check(reader, progress)
        executor, horizon = open_pipelined(url, ladder.keys.inbox), ladder.horizon_ms
        store = LadderStore(
            ladder.redis, ladder.name, ladder.system, horizon=horizon, executor=executor, shadow=ladder.shadow
        )
        importer = Importer(store, horizon=horizon, replace=self._replace, dry=self._dry)
        try:
            if not self._dry:
                await _join(store)
            begun = time.monotonic()
            with progress_bar(in_bytes=True) as progress:
                await self._send(reader, importer, progress)
            self._seconds = time.monotonic() - begun
        except REDIS_ERRORS as error:
            if "OTHERSETTINGS" in str(error):
                raise _other_settings(ladder.name) from None
            reason = unavailable(url, error)
            raise CommandError(f"{reason}; {self.confirmed()}", reason.code) from None
        finally:
            await executor.close()

    async def _check(self, reader: PlayerReader, progress: ProgressCallback) -> None:
        wrong, seen, lines = InvalidLines(), dict[str, int](), 0
        for line in self._lines(reader):
            lines += 1
            if line.value is None:
                wrong.add(line.number, line.problem)
            elif (first := seen.setdefault(line.value.player, line.number)) != line.number:
                wrong.add(line.number, f"player: {quote(line.value.player, 140)} is on line {first} too")
            if lines % _PAGE == 0:
                progress("Checking", line.read, self._source.size)
                await asyncio.sleep(0)  # for Ctrl-C
        wrong.refuse(lines, "nothing was written")

    def _lines(self, reader: PlayerReader) -> Iterator[ParsedLine[PlayerRecord]]:
        file = self._source.file
        file.seek(0)
        if self._csv:
            return csv_lines(file, reader.row, reader.names, ("player", "rating", "games"))
        return json_lines(file, reader.json)

    async def _send(self, reader: PlayerReader, importer: Importer, progress: ProgressCallback) -> None:
        async for line, result in importer.run(self._checked_lines(reader), itemgetter(1)):
            self._counts[result.outcome] += 1
            if result.outcome == "refused":
                self._refused.append((line.number, result))
            if self._counts.total() % _PAGE == 0:
                progress("Importing", line.read, self._source.size)

    def _checked_lines(self, reader: PlayerReader) -> Iterator[ParsedLine[PlayerRecord]]:
        for line in self._lines(reader):
            if line.value is None:
                text = f"FILE: it changed while it was read; {self.confirmed()}"
                raise CommandError(text, ExitCode.WRONG_INPUT)
            yield line

    def confirmed(self) -> str:
        """The number of players known to be imported after an interruption, and how to go on."""
        count = self._counts["imported"] + self._counts["replaced"]
        return f"{count} players are known to be imported; run it again to import the rest"

    def summary(self) -> str:
        """The result in one line."""
        total = self._counts.total()
        parts = [f"{self._counts[name]} {name}" for name in ("replaced", "unchanged", "refused")]
        parts = [part for part in parts if not part.startswith("0 ")]
        parts.insert(0, f"{self._counts['imported']} imported")
        done = f"{'would be ' if self._dry else ''}{', '.join(parts)}"
        if not self._dry and total == self._counts["unchanged"]:
            return f"{done}; nothing has changed"
        return f"{done}; {total / self._seconds:.0f} a second" if self._seconds > 0.5 else done

    def document(self) -> dict[str, Any]:
        """The result for --json, with all refused players."""
        counts = {name: self._counts[name] for name in ("imported", "replaced", "unchanged")}
        refused = [
            {"line": line, "player": player.player, "rating": player.rating, "sequence": player.sequence}
            for line, player in self._refused
        ]
        return {**counts, "seconds": round(self._seconds, 3), "refused": refused}

    def report_refused(self) -> None:
        """Names the refused players; raises CommandError when there are any."""
        for line, player in self._refused[:_REPORTED]:
            has = f"has rating {format_number(player.rating)} after {player.sequence} changes here"
            print_note(f"line {line}: player {quote(player.player, 140)} {has}")
        if count := len(self._refused):
            more = "" if count <= _REPORTED else f" ({_REPORTED} are named above; --json names all)"
            text = f"{count} players already have a different rating and were skipped{more}"
            text += "; --replace overwrites"
            raise CommandError(text, ExitCode.FAILED)


async def _join(store: LadderStore) -> None:
    """Prepares the ladder, or its shadow, to be written to. Raises CommandError."""
    if store.keys.shadow:
        side = await store.join_group()
        if side == "live":
            text = f"ladder {store.ladder} is rated by live workers, and can have no shadow"
            raise CommandError(text, ExitCode.FAILED)
        if side != "entered":
            text = f"the shadow of ladder {store.ladder} is being cleared; run shadow clear to its end"
            raise CommandError(text, ExitCode.FAILED)
    if not await store.ensure_adopted():
        raise _other_settings(store.ladder)


def _other_settings(ladder: str) -> CommandError:
    text = (
        f"ladder {ladder} is rated by other settings than these; see match-ratings ladder diff; "
        "nothing was written"
    )
    return CommandError(text, ExitCode.WRONG_INPUT)
