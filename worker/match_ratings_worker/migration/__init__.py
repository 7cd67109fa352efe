"""Moving over from another rater: importing its players, comparing its changes, clearing the shadow."""

from match_ratings_worker.migration.clear_shadow import Shadow, ShadowContents, ShadowRunning
from match_ratings_worker.migration.compare_with_old_rater import (
    Comparison,
    ComparisonResult,
    RatedChange,
    ReferenceChange,
    read_reference_change,
)
from match_ratings_worker.migration.csv_json_lines import ParsedLine, csv_lines, json_lines
from match_ratings_worker.migration.import_players import Importer, ImportResult
from match_ratings_worker.migration.player_records import InvalidLine, PlayerReader, PlayerRecord

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
