"""FIDE's K: by rule, and limited by the 700 rule.

Source: FIDE Handbook, B.02 Rating Regulations, chapter 8.3.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: A player is new until events of this many games are complete.
NEW_GAMES: Final = 30
#: K times the games of a period may not be over this.
MAX_K_GAMES: Final = 700


class KFactor(NamedTuple):
    """A K and the rule that gave it."""

    k: int
    rule: str


def k_factor(*, peak: int, games: int, birth_year: int | None, year: int) -> KFactor:
    """K by FIDE's rules, before the 700 rule.

    `peak` is the highest published rating ever, `games` those of complete events or periods, `year`
    the year of the games. 10 once the peak is 2400; else 40 until the end of the year of the 18th
    birthday while the peak is under 2300; else 40 for a new player; else 20.
    """
    if peak >= 2400:
        return KFactor(10, f"a published rating has reached 2400 (peak {peak})")
    if birth_year is not None and year - birth_year <= 18 and peak < 2300:
        return KFactor(
            40, f"born {birth_year}: until the end of {birth_year + 18}, never rated 2300 (peak {peak})"
        )
    if games < NEW_GAMES:
        return KFactor(40, f"new: {games} games complete, fewer than {NEW_GAMES}")
    return KFactor(20, f"{games} games complete, never rated 2400 (peak {peak})")


def limited_k(k: int, games: int) -> int:
    """The 700 rule: the largest whole K for which K x games in the period is not over 700.

    Over 700 games leave a K of 0.
    """
    return k if k * games <= MAX_K_GAMES else MAX_K_GAMES // games
