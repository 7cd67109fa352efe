"""Games of a list from the command line: as arguments, or from a file of CSV or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from csv import DictReader
from json import loads
from pathlib import Path
from typing import Any, Final

from match_ratings_worker.calculators import Played
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.parameters import parse_number
from match_ratings_worker.text import quote

__all__ = ["read_games"]

_SCORES: Final = {"1": 1.0, "0.5": 0.5, "0": 0.0, "win": 1.0, "draw": 0.5, "loss": 0.0, "1/2": 0.5, "½": 0.5}
_COLUMNS: Final = ("opponent", "score", "rd", "cube", "length")


def read_games(arguments: Sequence[str], file: str | None) -> list[Played]:
    """Games written as OPPONENT[/RD]:SCORE[@CUBE or @LENGTH], then those of a file; - is standard input.

    CSV has a line of titles; both kinds of files have `opponent` and `score`, and may have `rd`, `cube`
    and `length`.
    """
    games = [_argument(text) for text in arguments]
    if file is not None:
        games += _rows(_lines(file))
    return games


def _argument(text: str) -> Played:

    rating, found, rest = text.partition(":")
    score, _, at = rest.partition("@")
    opponent, _, rd = rating.partition("/")
    if not found:
        allowed = "use OPPONENT:SCORE, with an RD as OPPONENT/RD:SCORE, with a cube or length as ...@4"
        raise CommandError(f"GAME: {quote(text)} is not allowed; {allowed}", ExitCode.WRONG_INPUT)
    row = {"opponent": opponent, "score": score, "rd": rd, "cube": at, "length": at}
    return _played("GAME", row)


def _lines(file: str) -> list[str]:

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(
            f"--file: {quote(file, 200)} cannot be read: {why}", ExitCode.WRONG_INPUT
        ) from None
    return text.splitlines()


def _rows(lines: Sequence[str]) -> Iterable[Played]:

    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row: Any = loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise CommandError(f"--file: line {number} is not a JSON object", ExitCode.WRONG_INPUT)
            yield _played(f"line {number}", {name: _text(value) for name, value in row.items()})
        return
    reader = DictReader(lines, skipinitialspace=True)
    titles = list(reader.fieldnames or ())
    if not {"opponent", "score"} <= set(titles):
        known = ", ".join(_COLUMNS)
        text = f"--file: the first line is {quote(first)}; it must name the columns, of {known}"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    for found in reader:
        yield _played(f"line {reader.line_num}", {name: value or "" for name, value in found.items() if name})


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _played(where: str, row: dict[str, str]) -> Played:

    row = {name: value.strip() for name, value in row.items()}
    score = row.get("score", "")
    if score not in _SCORES and score not in ("1.0", "0.0"):
        allowed = "use 1, 0.5 or 0, or win, draw or loss"
        raise CommandError(f"{where}: score: {quote(score)} is not allowed; {allowed}", ExitCode.WRONG_INPUT)
    cube, length = row.get("cube", ""), row.get("length", "")
    rd = row.get("rd", "")
    return Played(
        parse_number(f"{where}: opponent", row.get("opponent", "")),
        _SCORES[score] if score in _SCORES else float(score),
        float(parse_number(f"{where}: rd", rd, low=0)) if rd else None,
        int(parse_number(f"{where}: cube", cube, low=1, whole=True)) if cube else 1,
        int(parse_number(f"{where}: length", length, low=1, whole=True)) if length else None,
    )
