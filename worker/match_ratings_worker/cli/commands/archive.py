"""`archive`: the SQLite file that keeps the events trimmed from the ledger."""

from __future__ import annotations

from typing import Any

import typer

from match_ratings_worker.cli.change_options import YesOption, confirm
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import format_time, print_fields, print_heading, print_json
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.ledger import Archive, Archiver
from match_ratings_worker.storage import LadderHandle

app = typer.Typer(no_args_is_help=True, help="Show the archive of a ledger, or adopt it.")


@app.callback()
def _group() -> None:
    """Show the archive of a ledger, the file of RATINGS_ARCHIVE, or adopt it."""


@app.command("status", short_help="Show the archive's last event, and how many events wait for it.")
def status(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print where a ladder's archive is, its last event, and the events that Redis keeps."""
    found = run_on_ladder(load_installation(), ladder, _status)
    if json:
        print_json(found)
        return
    print_heading(f"Archive of ladder {found['ladder']}")
    pairs = [
        ("place", found["place"] or "none yet"),
        ("has events up to", found["upto"] if found["upto"] != "0-0" else "-"),
        ("last written", format_time(found["written_at"])),
    ]
    if "file" in found:
        mine = "the ladder's archive" if found["ours"] else "NOT the ladder's archive"
        pairs.append(("file here", f"{found['file']}, {mine}"))
        pairs.append(("events in it", f"{found['archived_events']}, the last {found['last']}"))
    pairs.append(("events in Redis", f"{found['kept_events']}, the last {found['newest']}"))
    print_fields(pairs)


async def _status(ladder: LadderHandle) -> dict[str, Any]:
    redis, keys = ladder.redis, ladder.keys
    stored: dict[bytes, bytes] = await redis.execute_command("HGETALL", keys.archive)
    about = {name.decode(): value.decode("utf-8", "replace") for name, value in stored.items()}
    info: dict[str, Any] = {"length": 0}
    if await redis.exists(keys.outbox):
        info = await redis.xinfo_stream(keys.outbox)
    found: dict[str, Any] = {
        "ladder": ladder.name,
        "place": about.get("place"),
        "upto": about.get("upto", "0-0"),
        "written_at": int(about.get("at", 0)),
        "kept_events": info["length"],
        "newest": info["last-generated-id"].decode() if info["length"] else "0-0",
    }
    if ladder.archive is not None and ladder.archive.exists():
        with Archive(ladder.archive) as archive:
            found |= {
                "file": str(archive.path),
                "ours": archive.id == about.get("id"),
                "archived_events": archive.count(ladder.name),
                "last": archive.last(ladder.name),
            }
    return found


@app.command("adopt", short_help="Make this file the ladder's archive.")
def adopt(yes: YesOption = False, ladder: LadderOption = None) -> None:
    """Make the file of RATINGS_ARCHIVE the ladder's archive, in place of any other.

    Needed after the file was lost or restored from a copy. Events that only the other file has are not
    copied; those that Redis still keeps are, from this file's last event on.
    """
    site = load_installation()
    name, path = site.ladder(ladder).name, site.settings.archive
    if path is None:
        raise CommandError("RATINGS_ARCHIVE: it is not set", ExitCode.WRONG_INPUT)
    if site.settings.shadow:
        raise CommandError("RATINGS_SHADOW: a shadow has no archive", ExitCode.FAILED)

    async def act(handle: LadderHandle) -> None:
        with Archive(path, writable=True) as archive:
            print_note(f"{path} has events of ladder {name} up to {archive.last(name)}.")
            if not yes:
                confirm("Make it the ladder's archive?")
            await Archiver(handle.redis, archive, keep=0).adopt(name, handle.keys)

    run_on_ladder(site, ladder, act)
    print(f"ladder {name} is archived in {path}")
