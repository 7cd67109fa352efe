"""`dead-letters show`: one dead letter whole, what is wrong with it, and what can be done."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from worker.commands.common import NOT_FOUND, Fault, JsonOption, LadderOption, load_site
from worker.commands.letters import IdArgument, carry_out, checked_letter, setup_of
from worker.commands.output import fields, heading, moment, print_json

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from worker.letters import Diagnosis, Setup, Verdict
    from worker.queries import Letter

__all__ = ["says", "show"]

#: Bytes of a message that are shown.
_SHOWN = 16 * 1024


def show(letter_id: IdArgument, ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print one dead letter: its bytes, how they are read, what is wrong and where, what would make it
    valid, what a replay would do now, and what people have done to it.

    Bytes that are not UTF-8, and characters that a terminal might act on, are shown as escapes.
    """
    checked_letter(letter_id)
    site = load_site()
    setup = setup_of(site, ladder)

    async def act(redis: Redis) -> tuple[Letter | None, Diagnosis | None, Verdict | None]:
        from worker.letters import Forecast, Letters, diagnose
        from worker.queries import server_time

        letters = Letters(redis, setup.keys)
        [letter] = await letters.get([letter_id])
        if letter is None:
            return None, None, None
        now = await server_time(redis, letters.keys.inbox)
        [verdict] = await Forecast(redis, setup).of([(letter, False)], now=now)
        return letter, diagnose(letter.message, setup, now), verdict

    letter, diagnosis, verdict = carry_out(site, act)
    if letter is None or diagnosis is None or verdict is None:
        raise Fault(f"{letter_id} is no dead letter of ladder {setup.ladder}", NOT_FOUND)
    if json:
        print_json(_document(letter, diagnosis, verdict, setup))
    else:
        _print(letter, diagnosis, verdict, setup)


def _print(letter: Letter, diagnosis: Diagnosis, verdict: Verdict, setup: Setup) -> None:
    from worker.letters.history import entries

    heading(f"{letter.id} on ladder {setup.ladder}: {letter.reason}")
    fields(
        [
            ("detail", letter.detail),
            ("dead since", moment(letter.dead_at)),
            ("first seen", f"{moment(letter.first_seen)}, attempts {letter.attempts}"),
            ("in the inbox", letter.source_id or "never: it came by a job"),
        ]
    )
    heading(f"message, {len(letter.message)} bytes")
    fields([("", _bytes(letter.message))], indent=0)
    if diagnosis.fields:
        heading("read as")
        fields(diagnosis.fields)
    for trouble in diagnosis.troubles:
        heading(f"wrong: {trouble.where}")
        pairs = [("found", trouble.what), ("allowed", trouble.allowed)]
        if trouble.suggestion:
            pairs.append(("perhaps", _command("edit", letter.id, "--set", trouble.suggestion)))
        fields(pairs)
    heading("replayed now")
    fields([("", says(verdict))], indent=0)
    if history := entries(letter.history):
        heading("history")
        fields([_done(item) for item in history])


def _bytes(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message) - _SHOWN} bytes more)" if len(message) > _SHOWN else "")


def _command(name: str, letter_id: str, option: str, value: str) -> str:
    return f"match-ratings dead-letters {name} {letter_id} {option} {value} --why {shlex.quote('...')}"


def _done(item: dict[str, Any]) -> tuple[str, str]:
    """One thing that somebody did, in one line."""
    at = item.get("at")
    when = moment(at) if isinstance(at, int) else "-"
    text = f"{item.get('who', '?')}: {item.get('why', '?')}"
    if "force_late" in item:
        text += f" (forced; proof: {item['force_late']})"
    before = item.get("message", item.get("message_base64"))
    if before is not None:
        text += f"; before: {before}"
    return when, text


def says(verdict: Verdict) -> str:
    """What would become of it, in one line."""
    from contracts import RatingUpdated

    text = verdict.outcome.value.replace("-", " ")
    if verdict.event is not None:
        event = RatingUpdated.model_validate_json(verdict.event)
        parts = [f"{part.player} {part.before} -> {part.after}" for part in event.players]
        text += f": {', '.join(parts)}" + ("; late" if event.late else "")
    return f"{text}: {verdict.detail}" if verdict.detail else text


def _document(letter: Letter, diagnosis: Diagnosis, verdict: Verdict, setup: Setup) -> dict[str, Any]:
    from dataclasses import asdict

    from worker.letters import record_of

    return {
        **record_of(letter, setup.ladder),
        "troubles": [asdict(trouble) for trouble in diagnosis.troubles],
        "replayed_now": {"outcome": verdict.outcome.value, "detail": verdict.detail, "reason": verdict.reason},
    }
