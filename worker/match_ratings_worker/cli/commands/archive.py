"""`archive`: the file in which events are kept that have left the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from match_ratings_worker.cli.console import format_time, print_fields, print_heading, print_json, print_note
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import Installation, JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.options import YesOption, ask
from match_ratings_worker.cli.redis_errors import run

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.ledger.ladder_archive import LadderArchive
    from match_ratings_worker.ledger.sqlite_archive import Archive

__all__ = ["app", "archived", "open_archive"]

app = typer.Typer(no_args_is_help=True, help="Look after the file that keeps what has left the ledger.")


@app.callback()
def _group() -> None:
    """Look after the file that keeps what has left the ledger: RATINGS_ARCHIVE."""


@contextmanager
def open_archive(site: Installation, *, writable: bool = False) -> Iterator[Archive | None]:
    """The archive that RATINGS_ARCHIVE names; None where there is none. What is wrong is a Fault."""
    from match_ratings_worker.ledger.sqlite_archive import Archive, ArchiveError

    path = site.settings.archive
    try:
        if path is None or not (writable or path.exists()):
            yield None
            return
        with Archive(path, writable=writable) as archive:
            yield archive
    except ArchiveError as error:
        raise CommandError(f"RATINGS_ARCHIVE: {error}", ExitCode.UNAVAILABLE) from None


@contextmanager
def archived(site: Installation, ladder: str, *, wanted: bool = True) -> Iterator[LadderArchive | None]:
    """A ladder's archived events; None where there are none, as a shadow has none."""
    from match_ratings_worker.ledger.ladder_archive import LadderArchive

    if not wanted or site.settings.shadow:
        yield None
        return
    with open_archive(site) as archive:
        yield None if archive is None else LadderArchive(archive, ladder)


@app.command("status", short_help="Show what the archive has, and what waits for it.")
def status(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print where a ladder's archive is, how far it has come, and how many events wait for it."""
    site = load_installation()
    chosen, keys = site.named(ladder)

    async def act(redis: Redis) -> dict[str, Any]:
        stored: dict[bytes, bytes] = await redis.execute_command("HGETALL", keys.archive)
        about = {name.decode(): value.decode("utf-8", "replace") for name, value in stored.items()}
        upto = about.get("upto", "0-0")
        info: dict[str, Any] = {"length": 0}
        if await redis.exists(keys.outbox):
            info = await redis.xinfo_stream(keys.outbox)
        newest = info["last-generated-id"].decode() if info["length"] else "0-0"
        found: dict[str, Any] = {"ladder": chosen.name, "place": about.get("place"), "upto": upto}
        found |= {"written_at": int(about.get("at", 0)), "kept_events": info["length"], "newest": newest}
        with open_archive(site) as archive:
            if archive is not None:
                found |= {"file": str(archive.path), "ours": archive.id == about.get("id")}
                found |= {"archived_events": archive.count(chosen.name), "last": archive.last(chosen.name)}
        return found

    found = run(site.settings.redis_url, act)
    if json:
        print_json(found)
        return
    print_heading(f"Archive of ladder {chosen.name}")
    pairs = [("place", found["place"] or "none yet")]
    pairs += [
        ("has events up to", found["upto"] if found["upto"] != "0-0" else "-"),
        ("last written", format_time(found["written_at"])),
    ]
    if "file" in found:
        mine = "the ladder's archive" if found["ours"] else "NOT the ladder's archive"
        pairs.append(("file here", f"{found['file']}, {mine}"))
        pairs.append(("events in it", f"{found['archived_events']}, the last {found['last']}"))
    pairs.append(("events in Redis", f"{found['kept_events']}, the last {found['newest']}"))
    print_fields(pairs)


@app.command("adopt", short_help="Make this file the ladder's archive.")
def adopt(yes: YesOption = False, ladder: LadderOption = None) -> None:
    """Make the file of RATINGS_ARCHIVE the ladder's archive, whichever file was before.

    Needed after the file was lost or restored from a copy. What only the other file has is not in this
    one; what Redis still keeps is copied from the file's last event on.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)
    if site.settings.archive is None:
        raise CommandError("RATINGS_ARCHIVE: it is not set", ExitCode.WRONG_INPUT)
    if site.settings.shadow:
        raise CommandError("RATINGS_SHADOW: a shadow has no archive", ExitCode.FAILED)

    async def act(redis: Redis) -> None:
        from match_ratings_worker.ledger.archive_and_trim import Archiver

        with open_archive(site, writable=True) as archive:
            assert archive is not None
            print_note(
                f"{archive.path} has events of ladder {chosen.name} up to {archive.last(chosen.name)}."
            )
            if not yes:
                ask("Make it the ladder's archive?")
            await Archiver(redis, archive, keep=0).adopt(chosen.name, keys)

    run(site.settings.redis_url, act)
    print(f"ladder {chosen.name} is archived in {site.settings.archive}")
