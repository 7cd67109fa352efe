"""Read the matches to evaluate: from the ladder's ledger and archive, or from a file of JSON lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import orjson
import typer
from pydantic import ValidationError

from match_ratings import Cause, RatingUpdated
from match_ratings.messages import MESSAGE_TYPES
from match_ratings_worker.evaluation import HistoryRecord, LedgerReader, Prediction, of_message, prediction_of
from match_ratings_worker.ladder_settings import SettingsHistory, adopt_settings
from match_ratings_worker.ladders_file import Ladder
from match_ratings_worker.ledger import LedgerTrimmed, open_ledger, parse_event
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.safe_text import describe_error
from match_ratings_worker.storage import LadderHandle
from match_ratings_worker.text_lines import line_batches

from .configured_ladders import Installation
from .exit_codes import CommandError, ExitCode
from .input_files import InvalidLines, open_input
from .parameters import integer_option
from .progress import ProgressCallback
from .run_with_redis import run_on_ladder
from .stderr_notes import print_note

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
class MatchSource:
    """The matches that were read, and the predictions made when they were rated."""

    #: With the settings by which the ladder is rated.
    system: RatingSystem
    records: list[HistoryRecord] = field(default_factory=list)
    #: From events; empty for a file of messages.
    predictions: list[Prediction] = field(default_factory=list)
    #: Whether events were read rather than messages.
    from_events: bool = False
    #: Lines of a file that belong to other ladders.
    skipped_lines: int = 0
    reader: LedgerReader = field(default_factory=LedgerReader)

    def print_notes(self) -> None:
        """Print, on standard error, what the figures leave out or assume."""
        if partial := self.reader.partial_histories:
            print_note(
                f"{partial} players were rated before what is kept of the ledger begins; "
                "they start with the rating they had then"
            )
        if self.skipped_lines:
            print_note(f"{self.skipped_lines} lines are of other ladders and were left out")

    def add_event(self, event: RatingUpdated, system: RatingSystem | None) -> None:
        """Add an event and, if its `system` is known and it is a match, its prediction."""
        self.from_events = True
        self.records += self.reader.read(event)
        if event.cause is Cause.MATCH and system is not None:
            prediction = prediction_of(system, event)
            if prediction is not None:
                self.predictions.append(prediction)


def load_matches(
    installation: Installation, ladder: Ladder, file: str | None, progress: ProgressCallback
) -> MatchSource:
    """Read a file, or without one the ladder's ledger with its archive.

    Raises CommandError for a file, a ledger or an archive that cannot be read.
    """
    source = MatchSource(ladder.system)
    if file is not None:
        _read_file(source, ladder, file, progress)
    else:
        _read_ledger(source, installation, ladder, progress)
    return source


def _read_ledger(
    source: MatchSource, installation: Installation, ladder: Ladder, progress: ProgressCallback
) -> None:
    async def read(handle: LadderHandle) -> None:
        adoptions = await adopt_settings.history(handle.redis, handle.keys)
        systems = SettingsHistory(ladder.system, adoptions)
        source.system = systems.current
        with open_ledger(handle) as ledger:
            total, done = await ledger.size(), 0
            async for page in ledger.pages():
                for ledger_id, raw in page:
                    event = parse_event(ledger_id, raw)
                    if event is None:
                        text = f"event {ledger_id} of the ledger cannot be read"
                        raise CommandError(text, ExitCode.WRONG_INPUT)
                    source.add_event(event, systems.system_of(ledger_id, event))
                done += len(page)
                progress("Reading", done, max(total, done))

    try:
        run_on_ladder(installation, ladder.name, read)
    except LedgerTrimmed:
        text = "events were trimmed before they were read; run it again"
        raise CommandError(f"ladder {ladder.name}: {text}", ExitCode.WRONG_INPUT) from None


def _read_file(source: MatchSource, ladder: Ladder, file: str, progress: ProgressCallback) -> None:
    invalid, lines = InvalidLines(), 0
    with open_input(file) as found:
        for batch in line_batches(found.file):
            for line in batch.lines:
                lines += 1
                try:
                    _read_line(source, ladder, line.raw)
                except ValueError as error:
                    invalid.add(line.number, str(error))
            progress("Reading", batch.read, found.size)
    invalid.refuse(lines, "nothing was computed")


def _read_line(source: MatchSource, ladder: Ladder, raw: bytes | None) -> None:
    """Add the event or message of one line; raises ValueError with the reason if it is invalid."""
    try:
        data = orjson.loads(raw or b"")
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict):
        msg = "it is not a JSON object"
        raise ValueError(msg)
    name = data.get("type") or "match-finished"
    if "cause" not in data and (not isinstance(name, str) or name not in MESSAGE_TYPES):
        msg = f"type: {name!r} is not allowed"
        raise ValueError(msg)
    model = RatingUpdated if "cause" in data else MESSAGE_TYPES[name]
    try:
        parsed = model.model_validate(data)
    except ValidationError as error:
        raise ValueError(describe_error(error)) from None
    if parsed.ladder != ladder.name:
        source.skipped_lines += 1
    elif isinstance(parsed, RatingUpdated):
        source.add_event(parsed, ladder.system if parsed.system == ladder.system.name else None)
    elif (record := of_message(parsed)) is not None:
        source.records.append(record)
