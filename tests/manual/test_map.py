"""The maps for newcomers name what is there: in the packages' docstrings and in CONTRIBUTING."""

from __future__ import annotations

import re
from pathlib import Path

import match_ratings
import match_ratings_worker
from tests.support.document_session import ROOT

WORKER = Path(match_ratings_worker.__path__[0])
CLIENT = Path(match_ratings.__path__[0])


def test_the_worker_lists_its_layers_and_nothing_else() -> None:
    layers, _, way = str(match_ratings_worker.__doc__).partition("manual/ holds")
    named = {
        name
        for names in re.findall(r"^    (\w[\w, ]*?)  +\S", layers, re.MULTILINE)
        for name in names.split(", ")
    }
    found = {
        path.stem for path in WORKER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert named == found - {"__init__", "__main__"} | {"match_ratings"}
    for step in re.findall(r"-> (\w+/\S+)", way):
        assert any((WORKER / f"{step}{suffix}").exists() for suffix in ("", ".py", ".lua")), step


def test_the_client_lists_its_modules() -> None:
    named = re.findall(r"^    (\w+)/?  +\S", str(match_ratings.__doc__), re.MULTILINE)
    found = {path.stem for path in CLIENT.iterdir() if path.suffix == ".py" or path.name == "schemas"}
    assert set(named) == found - {"__init__"}


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:\./)?([\w.]+/[\w./-]*)`", text))
    assert len(named) > 15
    for name in named:
        assert any((folder / name).exists() for folder in (ROOT, WORKER, CLIENT)), name
