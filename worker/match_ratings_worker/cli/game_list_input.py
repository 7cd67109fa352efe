"""Parse a list of games: from arguments, or from a file of CSV or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from csv import DictReader
from json import loads
from pathlib import Path
from typing import Any, Final

from match_ratings_worker.calculators import Played
from match_ratings_worker.safe_text import quote

from .exit_codes import CommandError, ExitCode, refuse
from .parameters import parse_number

_SCORES: Final = {"1": 1.0, "0.5": 0.5, "0": 0.0, "win": 1.0, "draw": 0.5, "loss": 0.0, "1/2": 0.5, "½": 0.5}
_COLUMNS: Final = ("opponent", "score", "rd", "cube", "length")


def read_games(arguments: Sequence[str], file: str | None) -> list[Played]:
    """Parse games of the form OPPONENT[/RD]:SCORE[@CUBE or @LENGTH], then those of a file.

    The columns of a CSV file, named in its first line, and the fields of a JSON file are `opponent` and
    `score`, and optionally `rd`, `cube` and `length`. The file "-" is standard input. Raises CommandError.
    """
    games = [_parse_argument(text) for text in arguments]
    if file is not None:
        games += _parse_file(_read_lines(file))
    return games


def _parse_argument(text: str) -> Played:
    rating, found, rest = text.partition(":")
    score, _, at = rest.partition("@")
    opponent, _, rd = rating.partition("/")
    if not found:
        allowed = "use OPPONENT:SCORE, with an RD as OPPONENT/RD:SCORE, with a cube or length as ...@4"
        refuse("GAME", text, allowed)
    row = {"opponent": opponent, "score": score, "rd": rd, "cube": at, "length": at}
    return _parse_game("GAME", row)


def _read_lines(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(
            f"--file: {quote(file, 200)} cannot be read: {why}", ExitCode.WRONG_INPUT
        ) from None
    return text.splitlines()


def _parse_file(lines: Sequence[str]) -> Iterable[Played]:
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
            texts = {name: "" if value is None else str(value) for name, value in row.items()}
            yield _parse_game(f"line {number}", texts)
        return
    reader = DictReader(lines, skipinitialspace=True)
    titles = list(reader.fieldnames or ())
    if not {"opponent", "score"} <= set(titles):
        known = ", ".join(_COLUMNS)
        text = f"--file: the first line is {quote(first)}; it must name the columns, of {known}"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    for found in reader:
        yield _parse_game(
            f"line {reader.line_num}", {name: value or "" for name, value in found.items() if name}
        )


def _parse_game(where: str, row: dict[str, str]) -> Played:
    """A game from its fields; `where` begins the error's sentence."""
    row = {name: value.strip() for name, value in row.items()}
    score = row.get("score", "")
    if score not in _SCORES and score not in ("1.0", "0.0"):
        refuse(f"{where}: score", score, "use 1, 0.5 or 0, or win, draw or loss")
    cube, length = row.get("cube", ""), row.get("length", "")
    rd = row.get("rd", "")
    return Played(
        parse_number(f"{where}: opponent", row.get("opponent", "")),
        _SCORES[score] if score in _SCORES else float(score),
        float(parse_number(f"{where}: rd", rd, low=0)) if rd else None,
        int(parse_number(f"{where}: cube", cube, low=1, whole=True)) if cube else 1,
        int(parse_number(f"{where}: length", length, low=1, whole=True)) if length else None,
    )
