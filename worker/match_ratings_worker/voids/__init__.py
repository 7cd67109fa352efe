"""Taking matches back: finds what can be taken back, asks the workers for it, and hears what became of it.

Nothing here changes a rating: a `MatchVoided` message goes through the inbox like any other, so that it
keeps its place in the order of its players' matches and has its effect once.
"""

from match_ratings_worker.voids.find_match import find, games_of, refusals
from match_ratings_worker.voids.player_void_plan import Plan, Refunds, plan_for
from match_ratings_worker.voids.request_void import send, void_matches, wait
from match_ratings_worker.voids.void_outcome import Outcome, Verdict

__all__ = [
    "Outcome",
    "Plan",
    "Refunds",
    "Verdict",
    "find",
    "games_of",
    "plan_for",
    "refusals",
    "send",
    "void_matches",
    "wait",
]
