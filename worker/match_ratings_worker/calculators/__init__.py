"""Calculators: the outcomes of a match, a list of games, FIDE's period and performance."""

from .fide_period import FidePlayer, PeriodGame, PeriodReport, performance, period
from .game_list import GameLine, GameListSummary, Played, rate_game_list
from .ladder_preview import MatchPlayers, preview_on_ladder, read_match_players
from .match_outcomes import LENGTHS, PreviewRow, PreviewSide, preview

__all__ = [
    "FidePlayer",
    "GameLine",
    "GameListSummary",
    "LENGTHS",
    "MatchPlayers",
    "PeriodGame",
    "PeriodReport",
    "Played",
    "PreviewRow",
    "PreviewSide",
    "performance",
    "period",
    "preview",
    "preview_on_ladder",
    "rate_game_list",
    "read_match_players",
]
