"""`performance`: compute FIDE's performance rating from the opponents' ratings and a score."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from match_ratings_worker.calculators import performance as calculate
from match_ratings_worker.cli.configured_ladders import JsonOption
from match_ratings_worker.cli.console import print_fields, print_heading, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import number_option, parse_number


def performance(
    opponents: Annotated[list[str], typer.Argument(metavar="OPPONENT", help="The opponents' ratings.")],
    score: Annotated[float, number_option("--score", 0, help="Points: 1 a win, 0.5 a draw.")],
    json: JsonOption = False,
) -> None:
    """Print a performance rating: FIDE's, and the linear approximation.

    FIDE's is the opponents' average + dp, by the share of the score. The linear one is the average +
    400 (wins - losses) / games; it is undefined at 100 % and 0 %.
    """
    ratings = [int(parse_number("OPPONENT", text, low=1, whole=True)) for text in opponents]
    try:
        table = calculate(ratings, score)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.WRONG_INPUT) from None
    linear, why = None, ""
    try:
        linear = calculate(ratings, score, "linear")
    except ValueError as error:
        why = str(error)
    if json:
        document: dict[str, Any] = {"table": table._asdict()}
        document["linear"] = None if linear is None else linear._asdict()
        print_json({**document, "why_not_linear": why or None})
        return
    print_heading(f"{score:g} of {table.games} against an average of {table.average:.2f}")
    print_fields(
        [
            ("share", f"{table.share} %"),
            ("dp (table 8.1.1)", f"{table.difference:+g}"),
            ("performance", str(table.rating)),
            ("linear", str(linear.rating) if linear is not None else why),
        ]
    )
