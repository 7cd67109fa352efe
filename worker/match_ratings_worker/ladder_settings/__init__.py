"""The settings that a ladder is rated by: adopted ones, their history, and the risks of a change."""

from match_ratings_worker.ladder_settings.adopted_settings import (
    Adoption,
    UnknownSettings,
    adopted,
    adopted_system,
    ensure_adopted,
    settings_digest,
)
from match_ratings_worker.ladder_settings.settings_diff import (
    LadderUsage,
    SettingDifference,
    differences,
    flat,
    risks,
)
from match_ratings_worker.ladder_settings.settings_history import SettingsHistory

__all__ = [
    "Adoption",
    "LadderUsage",
    "SettingDifference",
    "SettingsHistory",
    "UnknownSettings",
    "adopted",
    "adopted_system",
    "differences",
    "ensure_adopted",
    "flat",
    "risks",
    "settings_digest",
]
