"""`import`: bring the players of an existing rater over."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from match_ratings_worker.cli.console import format_number, print_json, print_note
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InputFile, InvalidLines, open_input
from match_ratings_worker.cli.installation import Installation, JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.progress import ProgressCallback, progress_bar
from match_ratings_worker.cli.redis_errors import refusals, run, unavailable
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.ladders_file import Ladder
    from match_ratings_worker.migration.csv_json_lines import Line
    from match_ratings_worker.migration.import_players import Importer, Taken
    from match_ratings_worker.migration.player_records import Reader, Record
    from match_ratings_worker.pipeline.ladder_store import Store

__all__ = ["import_players"]

#: Lines between two movements of the progress bar.
_PAGE = 500
#: Refused players that are named one by one.
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
        bool, typer.Option("--replace", help="Overwrite players who have a standing here already.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, say what would be done, write nothing.")
    ] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Into the ladder's shadow, to rate beside the other rater.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Bring players over from another rater: ratings, games played, and the recent ranked games.

    On each line: player, rating, games; and where they are known last_game, recent_games (a list of
    match_id and finished_at, those of the last week), and what the rating system keeps besides, such as
    rd. The file is checked whole before anything is written. Importing it again changes nothing, so
    that an import that was broken off is just run again. A player who has other ratings here already
    is left out and named (exit code 1), unless --replace.
    """
    site = load_installation()
    chosen = site.ladder(ladder)
    shadow = shadow or site.settings.shadow
    with open_input(file) as source:
        job = _Import(site, chosen, source, csv=file.lower().endswith(".csv"), replace=replace, dry=dry_run)
        try:
            run(site.settings.redis_url, lambda redis: job.run(redis, shadow=shadow))
        except KeyboardInterrupt:
            print_note(f"match-ratings: interrupted; {job.confirmed()}")
            raise
    if json:
        print_json(job.document(shadow=shadow))
    else:
        print(job.summary(shadow=shadow))
    job.report()


class _Import:
    """One run of the command."""

    def __init__(
        self, site: Installation, ladder: Ladder, source: InputFile, *, csv: bool, replace: bool, dry: bool
    ) -> None:
        self._site, self._ladder, self._source = site, ladder, source
        self._csv, self._replace, self._dry = csv, replace, dry
        #: Outcome -> players.
        self.counts: Counter[str] = Counter()
        self._refused: list[tuple[int, Taken]] = []
        self._seconds = 0.0

    async def run(self, redis: Redis, *, shadow: bool) -> None:
        """Checks the file, then imports it. Raises Fault."""
        from match_ratings_worker.migration.import_players import Importer
        from match_ratings_worker.migration.player_records import Reader
        from match_ratings_worker.pipeline.ladder_store import Store
        from match_ratings_worker.queries import server_time
        from match_ratings_worker.storage.connection import open_pipelined
        from match_ratings_worker.storage.keys import Keys

        settings, system = self._site.settings, self._ladder.system
        reader = Reader(system, await server_time(redis, Keys(self._ladder.name).inbox))
        with progress_bar(in_bytes=True) as progress:
            await self._check(reader, progress)
        channel = open_pipelined(settings.redis_url, Keys(self._ladder.name).inbox)
        horizon = settings.horizon_ms
        store = Store(redis, self._ladder.name, system, horizon=horizon, executor=channel, shadow=shadow)
        importer = Importer(store, horizon=horizon, replace=self._replace, dry=self._dry)
        try:
            if not self._dry:
                await self._enter(store)
            begun = time.monotonic()
            with progress_bar(in_bytes=True) as progress:
                await self._send(reader, importer, progress)
            self._seconds = time.monotonic() - begun
        except refusals() as error:
            raise self._broken_off(error) from None
        finally:
            await channel.close()

    async def _check(self, reader: Reader, progress: ProgressCallback) -> None:
        wrong, seen, lines = InvalidLines(), dict[str, int](), 0
        for line in self._lines(reader):
            lines += 1
            if line.value is None:
                wrong.add(line.number, line.problem)
            elif (first := seen.setdefault(line.value.player, line.number)) != line.number:
                wrong.add(line.number, f"player: {_quoted(line.value.player)} is on line {first} too")
            if lines % _PAGE == 0:
                progress("Checking", line.read, self._source.size)
                await asyncio.sleep(0)  # for Ctrl-C
        wrong.refuse(lines, "nothing was written")

    def _lines(self, reader: Reader) -> Iterator[Line[Record]]:
        from match_ratings_worker.migration.csv_json_lines import csv_lines, json_lines

        self._source.file.seek(0)
        if self._csv:
            return csv_lines(self._source.file, reader.row, reader.names, ("player", "rating", "games"))
        return json_lines(self._source.file, reader.json)

    async def _enter(self, store: Store) -> None:
        """Makes sure that the ladder, or its shadow, is there to be written to."""
        if store.keys.shadow:
            side = await store.join_group()
            if side == "live":
                text = f"ladder {store.ladder} is rated by authoritative workers, and can have no shadow"
                raise CommandError(text, ExitCode.FAILED)
            if side != "entered":
                text = f"the shadow of ladder {store.ladder} is being cleared; run shadow clear to its end"
                raise CommandError(text, ExitCode.FAILED)
        if not await store.agree():
            raise self._other_settings()

    async def _send(self, reader: Reader, importer: Importer, progress: ProgressCallback) -> None:
        async for line, taken in importer.run(self._checked_lines(reader), itemgetter(1)):
            self.counts[taken.outcome] += 1
            if taken.outcome == "refused":
                self._refused.append((line.number, taken))
            if self.counts.total() % _PAGE == 0:
                progress("Importing", line.read, self._source.size)

    def _checked_lines(self, reader: Reader) -> Iterator[Line[Record]]:
        for line in self._lines(reader):
            if line.value is None:
                raise CommandError(
                    f"FILE: it changed while it was read; {self.confirmed()}", ExitCode.WRONG_INPUT
                )
            yield line

    def _broken_off(self, error: Exception) -> CommandError:
        if "OTHERSETTINGS" in str(error):
            return self._other_settings()
        fault = unavailable(self._site.settings.redis_url, error)
        return CommandError(f"{fault}; {self.confirmed()}", fault.code)

    def _other_settings(self) -> CommandError:
        text = (
            f"ladder {self._ladder.name} is rated by other settings than these; "
            "see match-ratings ladder diff; nothing was written"
        )
        return CommandError(text, ExitCode.WRONG_INPUT)

    def confirmed(self) -> str:
        """What is certain when it ended in the middle, and what to do."""
        count = self.counts["imported"] + self.counts["replaced"]
        return f"{count} players are known to be imported; run it again, it goes on where it stopped"

    def summary(self, *, shadow: bool) -> str:
        """What was done, in one line."""
        total = self.counts.total()
        parts = [f"{self.counts[name]} {name}" for name in ("replaced", "unchanged", "refused")]
        parts = [part for part in parts if not part.startswith("0 ")]
        parts.insert(0, f"{self.counts['imported']} imported")
        place = f"{self._ladder.name}'s shadow" if shadow else self._ladder.name
        would = " would be" if self._dry else ""
        done = f"players of {place}:{would} {', '.join(parts)}"
        if not self._dry and total == self.counts["unchanged"]:
            return f"{done}; nothing has changed"
        return f"{done}; {total / self._seconds:.0f} a second" if self._seconds > 0.5 else done

    def document(self, *, shadow: bool) -> dict[str, Any]:
        """The same for --json, with all who were refused."""
        counts = {name: self.counts[name] for name in ("imported", "replaced", "unchanged")}
        refused = [
            {"line": line, "player": player.player, "rating": player.rating, "sequence": player.sequence}
            for line, player in self._refused
        ]
        about = {"ladder": self._ladder.name, "shadow": shadow, "dry_run": self._dry}
        return {**about, **counts, "seconds": round(self._seconds, 3), "refused": refused}

    def report(self) -> None:
        """Names those who were refused; raises Fault when there are any."""
        for line, player in self._refused[:_REPORTED]:
            has = f"has rating {format_number(player.rating)} after {player.sequence} changes here"
            print_note(f"line {line}: player {_quoted(player.player)} {has}")
        if count := len(self._refused):
            more = "" if count <= _REPORTED else f" ({_REPORTED} are named above; --json names all)"
            text = f"{count} players have another standing here and were left out{more}; --replace overwrites"
            raise CommandError(text, ExitCode.FAILED)


def _quoted(player: str) -> str:

    return quote(player, 140)
