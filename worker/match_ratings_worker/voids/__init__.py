"""Voids: finds the matches that can be voided, asks the workers to void them, and waits for the results.

Nothing here changes a rating. A `MatchVoided` message goes through the inbox like any other, so that it
keeps its place in the order of its players' matches and has its effect once.
"""

from .find_voidable_matches import PlayerVoidPlan, find_voidable_match, plan_player_voids
from .send_void_requests import send_voids, void_match, void_matches, wait_for_voids
from .void_results import Refunds, VoidResult, VoidStatus

__all__ = [
    "PlayerVoidPlan",
    "Refunds",
    "VoidResult",
    "VoidStatus",
    "find_voidable_match",
    "plan_player_voids",
    "send_voids",
    "void_match",
    "void_matches",
    "wait_for_voids",
]
