"""What is shipped: the wheel has what it needs and nothing else, and no file tells where it was made."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Folders of the machine on which this is made, and hosts of package registries; put together here, so that
#: this file does not hold them itself.
TRACES = [
    *(f"/{folder}/" for folder in ("work", "root", "home")),
    f"/{'tmp'}/v",
    *(
        ".".join(parts)
        for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb", "debian"))
    ),
    "/simple" + "/",
]


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def known_files(*folders: str) -> set[str]:
    """Files that are in git, or would be with the next commit."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders)
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def wheel(built_wheel: Path) -> Iterator[zipfile.ZipFile]:
    assert re.fullmatch(r"match_ratings-[\d.]+-py3-none-any\.whl", built_wheel.name)
    with zipfile.ZipFile(built_wheel) as opened:
        yield opened


def test_the_wheel_holds_all_files_of_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {name.partition("/")[2] for name in known_files("contracts", "worker")}
    assert {name.split("/")[0] for name in names} == {"match_ratings", "match_ratings_worker"}


def test_the_wheel_has_scripts_for_redis_schemas_and_type_markers(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    scripts = {name for name in known_files("worker") if name.endswith(".lua")}
    assert scripts and {name.partition("/")[2] for name in scripts} <= names
    schemas = ("match-finished", "rating-updated")
    assert {f"match_ratings/schemas/{name}.json" for name in schemas} <= names
    assert {"match_ratings/py.typed", "match_ratings_worker/py.typed", "match_ratings/CHANGELOG.md"} <= names
    assert not [name for name in names if name.split("/")[0] in ("tests", "scripts")]


def test_the_metadata_names_the_licence_and_keeps_the_client_light(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = message_from_bytes(wheel.read(name))
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_all("License-File") == ["contracts/match_ratings/LICENSE"]
    assert set(metadata.get_all("Provides-Extra") or ()) == {"worker", "embedded", "plots", "dev"}
    needed = [line for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert [re.split(r"[<>=\[]", line)[0] for line in needed] == ["pydantic", "redis"]
    # Only versions of Python on which the suite was run are named.
    versions = [line for line in metadata.get_all("Classifier") or () if re.search(r":: 3\.\d+$", line)]
    assert [line.rpartition(" ")[2] for line in versions] == ["3.11", "3.12", "3.13"]


def test_the_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "match-ratings = match_ratings.command_line:main" in wheel.read(name).decode()


def test_what_is_in_the_wheel_works_without_the_checkout(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "unpacked")
    program = """
import sys
from pathlib import Path

import match_ratings, match_ratings_worker
from match_ratings import MatchFinished
from match_ratings_worker.rating import SYSTEMS
from match_ratings_worker.storage.lua_scripts import Script

for package in match_ratings, match_ratings_worker:
    assert Path(package.__file__).is_relative_to(sys.argv[1]), package.__file__
assert Script("commit_batch").text
print("loaded")
"""
    unpacked = str(tmp_path / "unpacked")
    env = {"PYTHONPATH": unpacked, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(sys.executable, "-c", program, unpacked, cwd=tmp_path, env=env) == "loaded\n"
    command = "import sys; sys.argv[1:] = ['--help']; from match_ratings.command_line import main; main()"
    assert "leaderboard" in run(sys.executable, "-c", command, cwd=tmp_path, env=env)


def test_no_file_holds_a_path_of_this_machine_or_the_host_of_a_registry() -> None:
    found = []
    for name in sorted(known_files()):
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{name}:{number}: {trace}" for trace in TRACES if trace in line]
    assert found == []
