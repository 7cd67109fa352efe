"""`ladder`: the settings that a ladder is rated by: show, compare with this configuration, adopt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from json import loads
from typing import Annotated, Any, Final

import typer

from match_ratings_worker.cli.change_options import ByOption, YesOption, confirm, user_name
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_time,
    print_fields,
    print_heading,
    print_json,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode, refuse
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.cli.stderr_notes import print_note
from match_ratings_worker.ladder_settings import (
    Adoption,
    LadderUsage,
    SettingDifference,
    UnknownSettings,
    adopt_settings,
    differences,
    flat,
    risks,
    settings_digest,
)
from match_ratings_worker.rating import RatingSystem
from match_ratings_worker.storage import LadderHandle, server_time

app = typer.Typer(no_args_is_help=True, help="Show, compare and adopt a ladder's settings.")

#: Characters of `--by` and `--why`, at most.
_LONGEST: Final = 500


@app.callback()
def _group() -> None:
    """Show, compare and adopt the settings that a ladder is rated by."""


@app.command(short_help="Show the adopted settings and their history.")
def show(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print the settings that a ladder is rated by, who adopted them when and why, and earlier ones."""
    installation = load_installation()
    chosen = installation.ladder(ladder)
    adoption, history = run_on_ladder(installation, ladder, _read_history)
    same = adoption is not None and adoption.digest == settings_digest(chosen.system)
    if json:
        print_json(
            {
                "ladder": chosen.name,
                "adopted": None if adoption is None else _document(adoption),
                "same_as_here": same,
                "history": [_document(item) for item in history],
            }
        )
    elif adoption is None:
        _note_not_adopted(chosen.name)
    else:
        _print_adoption(chosen.name, adoption, history, same=same)


@app.command(short_help="Compare the adopted settings with this configuration.")
def diff(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print, setting by setting, what differs between the adopted settings and this configuration."""
    installation = load_installation()
    chosen = installation.ladder(ladder)
    adoption, use = run_on_ladder(installation, ladder, _read_use)
    found = [] if adoption is None else _differences(adoption, chosen.system)
    dangers = [] if adoption is None else _dangers(adoption, chosen.system, use)
    if json:
        print_json(
            {
                "ladder": chosen.name,
                "adopted": None if adoption is None else adoption.digest,
                "here": settings_digest(chosen.system),
                "differences": [asdict(item) for item in found],
                "dangers": dangers,
            }
        )
    elif adoption is None:
        _note_not_adopted(chosen.name)
    elif not found:
        print_heading(f"ladder {chosen.name}: this configuration is the adopted one ({adoption.digest})")
    else:
        _print_differences(found)
        for danger in dangers:
            print_note(f"! {danger}")


@app.command(short_help="Rate a ladder by this configuration's settings from now on.")
def adopt(
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for the history.")],
    by: ByOption = None,
    yes: YesOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it changes the rules for games that have finished.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Adopt this configuration's settings for a ladder: from now on it is rated by these alone.

    Workers with other settings stop rating the ladder at once; those with these start within about two
    seconds. None needs to be restarted. A rule change that is dated in the future is safe. A change of
    the rules for games that have finished is refused without --force, with the reasons.
    """
    installation = load_installation()
    chosen = installation.ladder(ladder)
    author, why = _checked_text("--by", by if by is not None else user_name()), _checked_text("--why", why)
    adoption, use = run_on_ladder(installation, ladder, _read_use)
    digest = settings_digest(chosen.system)
    changed = adoption is None or adoption.digest != digest
    dangers: list[str] = []
    if adoption is not None and changed:
        dangers = _dangers(adoption, chosen.system, use)
        if not json:
            _print_differences(_differences(adoption, chosen.system))
        for danger in dangers:
            print_note(f"! {danger}")
        if dangers and not force:
            reasons = "the reasons are above" if len(dangers) > 1 else "the reason is above"
            text = (
                f"ladder {chosen.name}: this changes the rules for games that have finished; {reasons}; "
                "nothing was adopted (--force adopts it all the same)"
            )
            raise CommandError(text, ExitCode.WRONG_INPUT)
        if not yes:
            confirm(f"Rate ladder {chosen.name} by these settings from now on?")

    async def write(handle: LadderHandle) -> bool:
        expected = "" if adoption is None else adoption.digest
        return await adopt_settings.adopt(
            handle.executor, handle.keys, handle.system, expected_digest=expected, who=author, why=why
        )

    if changed and not run_on_ladder(installation, ladder, write):
        text = f"ladder {chosen.name}: somebody else has adopted other settings meanwhile; look again"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if json:
        print_json({"ladder": chosen.name, "digest": digest, "changed": changed, "dangers": dangers})
    else:
        done = "adopted" if changed else "adopted already"
        print(f"ladder {chosen.name}: these settings are {done} ({chosen.system.name}, {digest})")


async def _read_history(ladder: LadderHandle) -> tuple[Adoption | None, list[Adoption]]:
    adoption = await adopt_settings.adopted(ladder.redis, ladder.keys)
    return adoption, await adopt_settings.history(ladder.redis, ladder.keys)


async def _read_use(ladder: LadderHandle) -> tuple[Adoption | None, LadderUsage]:
    """Read the adopted settings, and the figures that say whether a change of them is safe."""
    redis, keys = ladder.redis, ladder.keys
    adoption = await adopt_settings.adopted(redis, keys)
    counts: dict[bytes, bytes] = await redis.hgetall(keys.counts)  # type: ignore[misc]  # wrong in redis-py
    rated = sum(int(counts.get(name, 0)) for name in (b"rated", b"prize")) or await redis.xlen(keys.outbox)
    waiting, held = await redis.xlen(keys.inbox), await redis.zcard(keys.open_periods)
    return adoption, LadderUsage(await server_time(redis, keys.inbox), rated, waiting, held)


def _settings(adoption: Adoption) -> dict[str, Any]:
    try:
        found = loads(adoption.settings)
    except ValueError:
        return {}
    return flat(found) if isinstance(found, dict) else {}


def _document(adoption: Adoption) -> dict[str, Any]:
    return {**asdict(adoption), "settings": _settings(adoption)}


def _differences(adoption: Adoption, configured: RatingSystem) -> list[SettingDifference]:
    return differences(adoption.system, _settings(adoption), configured)


def _dangers(adoption: Adoption, configured: RatingSystem, use: LadderUsage) -> list[str]:
    if adoption.digest == settings_digest(configured):
        return []
    try:
        return risks(adoption.rating_system(), configured, use)
    except UnknownSettings as error:
        print_note(str(error))
        return risks(None, configured, use)


def _note_not_adopted(ladder: str) -> None:
    print_note(f"nothing is adopted for ladder {ladder} yet; its first worker adopts its own settings")


def _print_adoption(ladder: str, adoption: Adoption, history: Sequence[Adoption], *, same: bool) -> None:
    print_heading(f"ladder {ladder}: {adoption.system}")
    print_fields(
        [
            ("adopted", f"{format_time(adoption.at)} by {adoption.who or '-'}"),
            ("why", adoption.why or "-"),
            ("digest", adoption.digest),
            ("this configuration", "the same" if same else "other settings; see match-ratings ladder diff"),
        ]
    )
    print()
    table = Table(Column("setting"), Column("value"))
    table.add((name, _format_setting(name, value)) for name, value in _settings(adoption).items())
    print()
    table = Table(*map(Column, ("adopted", "system", "digest", "ledger after", "by", "why")))
    table.add(
        (format_time(item.at), item.system, item.digest, item.after, item.who or "-", item.why or "-")
        for item in history
    )


def _print_differences(found: list[SettingDifference]) -> None:
    table = Table(Column("setting"), Column("adopted"), Column("this configuration"))
    table.add(
        (item.setting, _format_setting(item.setting, item.adopted), _format_setting(item.setting, item.here))
        for item in found
    )


def _format_setting(name: str, value: Any) -> str:
    if value is None:
        return "-"
    # Dates are the only numbers inside a table of settings.
    return format_time(value) if "." in name and isinstance(value, int) else str(value)


def _checked_text(name: str, value: str) -> str:
    if not value.strip() or len(value) > _LONGEST or not value.isprintable():
        refuse(name, value, f"1-{_LONGEST} printable characters are")
    return value
