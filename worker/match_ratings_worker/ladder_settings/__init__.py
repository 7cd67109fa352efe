"""The settings that a ladder is rated by: adopted ones, their history, and the risks of a change."""

from .adopt_settings import (
    Adoption,
    UnknownSettings,
    adopted,
    adopted_system,
    ensure_adopted,
    settings_digest,
)
from .settings_change_risks import LadderUsage, SettingDifference, differences, flat, risks
from .settings_history import SettingsHistory

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
