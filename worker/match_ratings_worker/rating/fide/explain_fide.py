"""FIDE's formula written out with an event's figures, for `Fide.explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from match_ratings import PlayerUpdate
from match_ratings_worker.rating.rating_system import Step

from .expected_score import SCALE, UNCAPPED_FROM, UNCAPPED_RATING, Expectation
from .k_factor import k_factor
from .months import month_of
from .performance import FIRST_GAMES, first_rating

_ROUNDED: Final = "half away from zero"


def explain_game(
    own: PlayerUpdate, other: PlayerUpdate, finished_at: int, expectation: Expectation
) -> Iterator[Step]:
    """The steps of one player's part of a game, rated by itself or held until the month closes."""
    name, figures, score = own.player, own.figures, own.score or 0
    if not figures.get("counted", 1):
        yield Step(
            "counted",
            f"{other.player} is unrated, and games against unrated players do not count",
            "no",
            name,
        )
        return
    if "difference" not in figures:
        yield Step(
            "counted", f"unrated: held for a first rating, {score:g} against {other.before}", _held(own), name
        )
        return
    difference, chance = int(figures["difference"]), own.expected or 0.0
    text = f"{own.before} - {other.before}"
    if difference != own.before - other.before:
        text += ", more than 400 counts as 400"
    elif abs(difference) > 400 and own.before >= UNCAPPED_RATING and finished_at >= UNCAPPED_FROM:
        text += f", in full for a player rated {UNCAPPED_RATING} or more"
    yield Step("difference", text, f"{difference:+}", name)
    curve = f"1 / (1 + 10^({-difference} / 400))"
    formula = f"table 8.1.2 at {difference:+}" if expectation == "table" else curve
    shown = f"{chance:.2f}" if expectation == "table" else f"{chance:.4f}"
    yield Step("expected", formula, shown, name)
    gain = f"{score:g} - {shown}"
    if "gain" in figures:
        yield Step("gain", gain, _points(figures["gain"]), name)
        yield Step("held", f"{_points(figures.get('period_gain_before', 0))} and this gain", _held(own), name)
        yield Step("rating", "changes at the end of the month", f"{own.after}", name)
        return
    k = own.k or 0
    yield Step("K", _why(own, k, int(figures["games"]), month_of(finished_at) // 100), f"{k}", name)
    yield Step("change", f"{k} x ({gain})", f"{k * (score - chance):+.4f}", name)
    yield Step("rounded", _ROUNDED, f"{own.change:+}", name)
    yield Step("rating", f"{own.before} {own.change:+}", f"{own.after}", name)


def explain_period(part: PlayerUpdate, floor: int) -> Iterator[Step]:
    """The steps of a player's rating, or first rating, at the end of a period."""
    name, figures = part.player, part.figures
    games, half_points, opponents, gain = (
        int(figures.get(f"period_{field}_before", 0)) for field in ("games", "halves", "opponents", "gain")
    )
    if not part.before:
        first = first_rating(opponents, games, half_points, floor)
        reached = first.performance
        yield Step(
            "games", f"{games}, of the {FIRST_GAMES} that are needed", f"{half_points / 2:g} points", name
        )
        yield Step("average", f"({opponents} + 2 x 1800) / ({games} + 2)", f"{reached.average:.2f}", name)
        yield Step(
            "share",
            f"({half_points / 2:g} + 2 x 0.5) / ({games} + 2)",
            f"0.{reached.share:02}" if reached.share != 100 else "1.00",
            name,
        )
        yield Step("dp", "table 8.1.1", f"{reached.difference:+g}", name)
        yield Step(
            "computed",
            f"{reached.average:.2f} {reached.difference:+g}, {_ROUNDED}, at most 2200",
            f"{first.computed}",
            name,
        )
        yield Step("rating", f"published from {floor} on", f"{part.after or 'unrated'}", name)
        return
    k, by_rules, computed = part.k or 0, int(figures["k_by_rules"]), int(figures["computed"])
    expected = part.expected or 0.0
    yield Step("gain", f"{half_points / 2:g} - {expected:.9g} in {games} games", _points(gain), name)
    year = int(figures["period_before"]) // 100
    yield Step("K", _why(part, by_rules, int(figures["games"]) - games, year), f"{by_rules}", name)
    over = ">" if by_rules * games > 700 else "<="
    yield Step("700 rule", f"{by_rules} x {games} games = {by_rules * games} {over} 700", f"{k}", name)
    yield Step("change", f"{k} x {_points(gain)}", f"{k * gain / SCALE:+.9g}", name)
    yield Step("rounded", f"once, {_ROUNDED}", f"{computed - int(part.before):+}", name)
    yield Step("computed", f"{part.before} {computed - int(part.before):+}", f"{computed}", name)
    rule = f"under {floor}: unrated on the next list" if not part.after else f"{floor} or more"
    yield Step("rating", rule, f"{part.after or 'unrated'}", name)


def _points(billionths: float) -> str:
    return f"{billionths / SCALE:+.9g}"


def _held(own: PlayerUpdate) -> str:
    games = int(own.figures.get("period_games_before", 0)) + 1
    if "difference" not in own.figures:
        return f"{games} games"
    gain = own.figures.get("period_gain_before", 0) + own.figures["gain"]
    return f"{_points(gain)} in {games} games"


def _why(part: PlayerUpdate, k: float, games: int, year: int) -> str:
    """The rule that gives this K, or that it was set."""
    figures = part.figures
    peak = max(int(figures.get("peak_before", 0)), int(part.before))
    birth_year = int(figures.get("birth_year_before", 0)) or None
    why = k_factor(peak=peak, games=games, birth_year=birth_year, year=year)
    return why.rule if why.k == k else "the ladder's setting"
