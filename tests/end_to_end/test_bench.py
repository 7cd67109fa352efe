"""The benchmark runs, and its JSON has the shape that its help describes. No figure is judged here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it as a user does; RATINGS_* of whoever runs the tests must not matter."""
    environment = {**os.environ, "RATINGS_REDIS_URL": "redis://127.0.0.1:1/0", "RATINGS_BATCH": "wrong"}
    return subprocess.run(
        [str(BENCH), *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


def is_spread(figure: dict[str, float]) -> bool:
    if figure.keys() != {"median", "low", "high", "runs"}:
        return False
    return 0 < figure["low"] <= figure["median"] <= figure["high"] and figure["runs"] >= 1


@pytest.mark.server
@pytest.mark.slow
def test_a_quick_run_prints_tables_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--quick", "--parts", "throughput,ceiling", "--json", str(file))
    assert done.returncode == 0, done.stderr
    for expected in ("Throughput", "arq, empty job", "Ceiling", "Targets", "a quick run"):
        assert expected in done.stdout
    assert "throughput: round 1" in done.stderr  # progress

    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["schema"] == 1
    assert result["quick"] is True
    assert result["failed"] == {}
    assert result["server"].keys() == {"name", "version", "from", "appendonly"}
    assert result["machine"]["cores"] >= 1
    assert result["parts"].keys() == {"throughput", "ceiling"}
    for tables in result["parts"].values():
        for table in tables:
            assert table.keys() == {"title", "rows", "notes"}
            for row in table["rows"]:
                assert is_spread(row["rate"]), row
                assert row["worker_us"].keys() == row["server_us"].keys() == row["rate"].keys()
    assert [table["title"].split(":")[0] for (table,) in result["parts"].values()] == [
        "Throughput",
        "Ceiling",
    ]
    for target in result["targets"]:
        assert target.keys() == {"name", "wanted", "figure", "reached", "note", "vital"}
    assert {target["wanted"] for target in result["targets"]} == {">= 10", ">= 0.6"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--parts", "throughput,speed"], "'speed' is not a part"),
        (["--parts", ","], "no part is named"),
        (["--json", "/nowhere/figures.json"], "'/nowhere/figures.json' cannot be written"),
        (["--fast"], "--fast"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(arguments: list[str], named: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert named in done.stderr
