"""Where matches come from that are looked at again: ledger and archive, or a file of JSON lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import orjson
import typer
from pydantic import ValidationError

from match_ratings import Cause, RatingUpdated
from match_ratings.messages import MESSAGE_TYPES
from match_ratings_worker.cli.console import print_note
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.input_files import InvalidLines, open_input
from match_ratings_worker.cli.installation import Installation
from match_ratings_worker.cli.parameters import integer_option
from match_ratings_worker.cli.progress import ProgressCallback
from match_ratings_worker.cli.redis_errors import run_on_ladder
from match_ratings_worker.evaluation import HistoryRecord, LedgerReader, Prediction, of_message
from match_ratings_worker.evaluation.simulation import prediction_of
from match_ratings_worker.ladder_settings import adopted_settings as adoption
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory
from match_ratings_worker.ladders_file import Ladder
from match_ratings_worker.ledger import LedgerTrimmed, open_ledger, parse_event
from match_ratings_worker.lines import line_batches
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage.ladder import LadderHandle
from match_ratings_worker.text import describe_error

__all__ = ["FileArgument", "MinGamesOption", "Source", "load"]

FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="Matches or events as JSON lines, - for standard input; by default the ladder's ledger.",
    ),
]
MinGamesOption = Annotated[
    int, integer_option("--min-games", 0, help="Only matches whose players had both rated N games before.")
]


@dataclass
class Source:
    """What was read."""

    #: The ladder's system, with the settings it is rated by.
    system: RatingSystem
    records: list[HistoryRecord] = field(default_factory=list)
    #: What the events said was expected; empty for a file of matches.
    told: list[Prediction] = field(default_factory=list)
    #: Whether it was events that were read.
    events: bool = False
    #: Players whose history begins in the middle, and messages of other ladders.
    partial_histories: int = 0
    elsewhere: int = 0

    def remarks(self) -> None:
        """Says on standard error what is not as it seems."""
        if self.partial_histories:
            print_note(
                f"{self.partial_histories} players were rated before what is kept of the ledger begins; "
                "they start with the rating they had then"
            )
        if self.elsewhere:
            print_note(f"{self.elsewhere} lines are of other ladders and were left out")


def load(site: Installation, ladder: Ladder, file: str | None, tell: ProgressCallback) -> Source:
    """Reads a file, or the ladder's ledger with its archive. What is wrong is a Fault."""

    source = Source(ladder.system)
    reader = LedgerReader()
    if file is not None:
        _read_file(source, reader, ladder, file, tell)
    else:
        _read_ledger(source, reader, site, ladder, tell)
    source.partial_histories = reader.partial_histories
    return source


def _take(source: Source, reader: LedgerReader, event: RatingUpdated, system: RatingSystem | None) -> None:

    source.events = True
    source.records += reader.read(event)
    if event.cause is Cause.MATCH and system is not None:
        prediction = prediction_of(system, event)
        if prediction is not None:
            source.told.append(prediction)


def _read_ledger(
    source: Source,
    reader: LedgerReader,
    site: Installation,
    ladder: Ladder,
    tell: ProgressCallback,
) -> None:
    async def act(handle: LadderHandle) -> None:
        settings = SettingsHistory(ladder.system, await adoption.history(handle.redis, handle.keys))
        source.system = settings.current
        with open_ledger(handle) as ledger:
            total, done = await ledger.size(), 0
            async for page in ledger.pages():
                for ledger_id, raw in page:
                    event = parse_event(ledger_id, raw)
                    if event is None:
                        text = f"event {ledger_id} of the ledger cannot be read"
                        raise CommandError(text, ExitCode.WRONG_INPUT)
                    _take(source, reader, event, settings.system_of(ledger_id, event))
                done += len(page)
                tell("Reading", done, max(total, done))

    try:
        run_on_ladder(site, ladder.name, act)
    except LedgerTrimmed:
        text = "events were trimmed before they were read; run it again"
        raise CommandError(f"ladder {ladder.name}: {text}", ExitCode.WRONG_INPUT) from None


def _read_file(
    source: Source, reader: LedgerReader, ladder: Ladder, file: str, tell: ProgressCallback
) -> None:

    wrong, lines = InvalidLines(), 0
    with open_input(file) as found:
        for batch in line_batches(found.file):
            for line in batch.lines:
                lines += 1
                try:
                    _read_line(source, reader, ladder, line.raw)
                except ValueError as error:
                    wrong.add(line.number, str(error))
            tell("Reading", batch.read, found.size)
    wrong.refuse(lines, "nothing was computed")


def _read_line(source: Source, reader: LedgerReader, ladder: Ladder, raw: bytes | None) -> None:
    """Takes in one line; raises ValueError with what is wrong with it."""

    try:
        data = orjson.loads(raw or b"")
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict):
        msg = "it is not a JSON object"
        raise ValueError(msg)
    try:
        if "cause" in data:
            event = RatingUpdated.model_validate(data)
            if event.ladder != ladder.name:
                source.elsewhere += 1
                return
            _take(source, reader, event, ladder.system if event.system == ladder.system.name else None)
            return
        name = data.get("type") or "match-finished"
        if not isinstance(name, str) or name not in MESSAGE_TYPES:
            msg = f"type: {name!r} is not allowed"
            raise ValueError(msg)
        message = MESSAGE_TYPES[name].model_validate(data)
    except ValidationError as error:
        raise ValueError(describe_error(error)) from None
    if message.ladder != ladder.name:
        source.elsewhere += 1
        return
    record = of_message(message)
    if record is not None:
        source.records.append(record)
