"""Moving over from another rater: importing its players, comparing its changes, clearing the shadow."""

from .clear_shadow import Shadow, ShadowContents, ShadowRunning
from .compare_with_old_rater import (
    Comparison,
    ComparisonResult,
    RatedChange,
    ReferenceChange,
    read_reference_change,
)
from .import_players import Importer, ImportResult
from .player_records import InvalidLine, PlayerReader, PlayerRecord
from .read_player_files import ParsedLine, csv_lines, json_lines

__all__ = [
    "Comparison",
    "ComparisonResult",
    "ImportResult",
    "Importer",
    "InvalidLine",
    "ParsedLine",
    "PlayerReader",
    "PlayerRecord",
    "RatedChange",
    "ReferenceChange",
    "Shadow",
    "ShadowContents",
    "ShadowRunning",
    "csv_lines",
    "json_lines",
    "read_reference_change",
]
