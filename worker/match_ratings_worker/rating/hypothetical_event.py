"""Events of games that were not rated from the inbox: previews, lists of games, backtests."""

from __future__ import annotations

from typing import Final

from match_ratings import Cause, PlayerUpdate, RatingUpdated

from .rating_system import Game, Outcome, RatingSystem, State

#: The ladder and match id of such events.
_NOWHERE: Final = "preview"


def event_of(
    system: RatingSystem,
    states: tuple[State, State],
    game: Game,
    *,
    outcome: Outcome | None = None,
    names: tuple[str, str] = ("first", "second"),
) -> RatingUpdated:
    """The event that a game between players in these states would give, for `system.explain`.

    `outcome` defaults to that of the system's `rate`; pass in another, such as that of `preview`.
    """
    if outcome is None:
        outcome = system.rate(*states, game)
    parts = tuple(
        PlayerUpdate(
            player=name,
            score=score,
            before=state.rating,
            change=side.change,
            after=side.rating,
            expected=side.expected,
            k=side.k,
            recent_games=recent,
            sequence=1,
            figures=dict(side.figures),
        )
        for name, state, side, score, recent in zip(
            names, states, outcome.sides, game.scores, game.recent_games, strict=True
        )
    )
    figures = dict(outcome.figures)
    if game.length is not None:
        figures["length"] = game.length
    return RatingUpdated(
        cause=Cause.MATCH,
        match_id=_NOWHERE,
        ladder=_NOWHERE,
        system=system.name,
        rules=outcome.rules,
        cube=game.cube,
        coefficient=outcome.coefficient,
        finished_at=game.finished_at,
        rated_at=game.finished_at,
        players=parts,
        figures=figures,
    )
