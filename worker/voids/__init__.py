"""Taking matches back: finds what can be taken back, asks the workers for it, and hears what became of it.

Nothing here changes a rating: a `MatchVoided` message goes through the inbox like any other, so that it
keeps its place in the order of its players' matches and has its effect once.
"""

from worker.voids.act import send, void_matches, wait
from worker.voids.look import find, games_of, refusals
from worker.voids.outcome import Outcome, Verdict
from worker.voids.plan import Plan, Refunds, plan_for

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
