"""`ladder`: the settings that a ladder is rated by: show, compare with this configuration, adopt."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from match_ratings_worker.cli.console import (
    Column,
    Table,
    format_time,
    print_fields,
    print_heading,
    print_json,
    print_note,
)
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.installation import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.options import WhoOption, YesOption, ask, user_name
from match_ratings_worker.cli.redis_errors import run
from match_ratings_worker.text import quote

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.ladder_settings.adopted_settings import Adoption
    from match_ratings_worker.ladder_settings.settings_diff import Difference, Use
    from match_ratings_worker.rating import RatingSystem
    from match_ratings_worker.storage.keys import Keys

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show, compare and adopt a ladder's settings.")

#: Characters of `--by` and `--why`, at most.
_LONGEST: Final = 500


@app.callback()
def _group() -> None:
    """Show, compare and adopt the settings that a ladder is rated by."""


@app.command(short_help="Show the adopted settings, since when, by whom, and what was before.")
def show(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print the settings that a ladder is rated by, who adopted them when and why, and those before."""
    site = load_installation()
    chosen, keys = site.named(ladder)

    async def act(redis: Redis) -> tuple[Adoption | None, list[Adoption]]:
        from match_ratings_worker.ladder_settings import adopted_settings as adoption

        return await adoption.adopted(redis, keys), await adoption.history(redis, keys)

    now, before = run(site.settings.redis_url, act)
    same = now is not None and now.digest == _digest(chosen.system)
    if json:
        print_json(
            {
                "ladder": chosen.name,
                "adopted": None if now is None else _document(now),
                "same_as_here": same,
                "history": [_document(item) for item in before],
            }
        )
        return
    if now is None:
        print_note(
            f"nothing is adopted for ladder {chosen.name} yet; its first worker adopts its own settings"
        )
        return
    print_heading(f"ladder {chosen.name}: {now.system}")
    print_fields(
        [
            ("adopted", f"{format_time(now.at)} by {now.who or '-'}"),
            ("why", now.why or "-"),
            ("digest", now.digest),
            ("this configuration", "the same" if same else "other settings; see match-ratings ladder diff"),
        ]
    )
    print()
    sheet = Table(Column("setting"), Column("value"))
    sheet.add((name, _shown(name, value)) for name, value in _settings(now).items())
    print()
    sheet = Table(*(Column(title) for title in ("adopted", "system", "digest", "ledger after", "by", "why")))
    sheet.add(
        (format_time(item.at), item.system, item.digest, item.after, item.who or "-", item.why or "-")
        for item in before
    )


@app.command(short_help="Compare the adopted settings with this configuration.")
def diff(ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print, setting by setting, what differs between the adopted settings and this configuration."""
    site = load_installation()
    chosen, keys = site.named(ladder)

    async def act(redis: Redis) -> tuple[Adoption | None, Use]:
        from match_ratings_worker.ladder_settings import adopted_settings as adoption

        return await adoption.adopted(redis, keys), await _use(redis, keys)

    now, use = run(site.settings.redis_url, act)
    found = [] if now is None else _differences(now, chosen.system)
    told = [] if now is None else _dangers(now, chosen.system, use)
    if json:
        document: dict[str, Any] = {"ladder": chosen.name, "adopted": None if now is None else now.digest}
        document |= {"here": _digest(chosen.system), "differences": [asdict(item) for item in found]}
        print_json({**document, "dangers": told})
    elif now is None:
        print_note(
            f"nothing is adopted for ladder {chosen.name} yet; its first worker adopts its own settings"
        )
    elif not found:
        print_heading(f"ladder {chosen.name}: this configuration is the adopted one ({now.digest})")
    else:
        _print_differences(found)
        for danger in told:
            print_note(f"! {danger}")


@app.command(short_help="Rate a ladder by this configuration's settings from now on.")
def adopt(
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for the history.")],
    who: WhoOption = None,
    yes: YesOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it changes the rules for games that have finished.")
    ] = False,
    ladder: LadderOption = None,
    json: JsonOption = False,
) -> None:
    """Adopt this configuration's settings for a ladder: from now on it is rated by these alone.

    Workers with other settings stop rating the ladder at once, those with these start within about two
    seconds; none needs to be restarted. A rule change that is dated in the future is safe. What changes
    the rules for games that have finished is refused without --force, with the reasons.
    """
    site = load_installation()
    chosen, keys = site.named(ladder)
    by, why = _text("--by", who if who is not None else user_name()), _text("--why", why)

    async def look(redis: Redis) -> tuple[Adoption | None, Use]:
        from match_ratings_worker.ladder_settings import adopted_settings as adoption

        return await adoption.adopted(redis, keys), await _use(redis, keys)

    now, use = run(site.settings.redis_url, look)
    digest = _digest(chosen.system)
    told: list[str] = []
    if now is not None and now.digest != digest:
        told = _dangers(now, chosen.system, use)
        if not json:
            _print_differences(_differences(now, chosen.system))
        for danger in told:
            print_note(f"! {danger}")
        if told and not force:
            reasons = "the reasons are above" if len(told) > 1 else "the reason is above"
            text = f"ladder {chosen.name}: this changes the rules for games that have finished; {reasons}"
            raise CommandError(
                f"{text}; nothing was adopted (--force adopts it all the same)", ExitCode.WRONG_INPUT
            )
        if not yes:
            ask(f"Rate ladder {chosen.name} by these settings from now on?")

    async def act(redis: Redis) -> bool:
        from match_ratings_worker.ladder_settings.adopted_settings import adopt as adopt_settings
        from match_ratings_worker.storage.pipelined_connection import ClientExecutor

        expected = "" if now is None else now.digest
        line = ClientExecutor(redis)
        return await adopt_settings(line, keys, chosen.system, instead_of=expected, who=by, why=why)

    changed = now is None or now.digest != digest
    if changed and not run(site.settings.redis_url, act):
        text = f"ladder {chosen.name}: somebody else has adopted other settings meanwhile; look again"
        raise CommandError(text, ExitCode.WRONG_INPUT)
    if json:
        print_json({"ladder": chosen.name, "digest": digest, "changed": changed, "dangers": told})
    else:
        done = "adopted" if changed else "adopted already"
        print(f"ladder {chosen.name}: these settings are {done} ({chosen.system.name}, {digest})")


async def _use(redis: Redis, keys: Keys) -> Use:
    from match_ratings_worker import queries
    from match_ratings_worker.ladder_settings.settings_diff import Use

    counts: dict[bytes, bytes] = await redis.hgetall(keys.counts)  # type: ignore[misc]  # wrong in redis-py
    rated = sum(int(counts.get(name, 0)) for name in (b"rated", b"prize")) or await redis.xlen(keys.outbox)
    waiting, held = await redis.xlen(keys.inbox), await redis.zcard(keys.open_periods)
    return Use(await queries.server_time(redis, keys.inbox), rated, waiting, held)


def _digest(system: RatingSystem) -> str:
    from match_ratings_worker.ladder_settings.adopted_settings import settings_digest

    return settings_digest(system)


def _settings(item: Adoption) -> dict[str, Any]:
    from json import loads

    from match_ratings_worker.ladder_settings.settings_diff import flat

    try:
        found = loads(item.settings)
    except ValueError:
        return {}
    return flat(found) if isinstance(found, dict) else {}


def _document(item: Adoption) -> dict[str, Any]:
    return {**asdict(item), "settings": _settings(item)}


def _differences(now: Adoption, here: RatingSystem) -> list[Difference]:
    from match_ratings_worker.ladder_settings.settings_diff import differences

    return differences(now.system, _settings(now), here)


def _dangers(now: Adoption, here: RatingSystem, use: Use) -> list[str]:
    from match_ratings_worker.ladder_settings.adopted_settings import UnknownSettings
    from match_ratings_worker.ladder_settings.settings_diff import risks

    if now.digest == _digest(here):
        return []
    try:
        return risks(now.rating_system(), here, use)
    except UnknownSettings as error:
        print_note(str(error))
        return risks(None, here, use)


def _print_differences(found: list[Difference]) -> None:
    sheet = Table(Column("setting"), Column("adopted"), Column("this configuration"))
    sheet.add(
        (item.setting, _shown(item.setting, item.adopted), _shown(item.setting, item.here)) for item in found
    )


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    # Dates are the only numbers inside a table of settings.
    return format_time(value) if "." in name and isinstance(value, int) else str(value)


def _text(name: str, value: str) -> str:

    if not value.strip() or len(value) > _LONGEST or not value.isprintable():
        allowed = f"1-{_LONGEST} printable characters are"
        raise CommandError(f"{name}: {quote(value)} is not allowed; {allowed}", ExitCode.WRONG_INPUT)
    return value
