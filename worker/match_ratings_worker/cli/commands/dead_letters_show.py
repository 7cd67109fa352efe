"""`dead-letters show`: one dead letter whole, what is wrong with it, and what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from match_ratings_worker.cli.console import fields, heading, moment, print_json
from match_ratings_worker.cli.dead_letter_options import IdArgument, carry_out, checked_letter, setup_of
from match_ratings_worker.cli.installation import (
    NOT_FOUND,
    CommandError,
    JsonOption,
    LadderOption,
    load_installation,
)

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from match_ratings_worker.dead_letters import Inspection, Verdict

__all__ = ["says", "show"]

#: Bytes of a message that are shown.
_SHOWN = 16 * 1024


def show(letter_id: IdArgument, ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print one dead letter: its bytes, how they are read, what is wrong and where, what would make it
    valid, what a replay would do now, and what people have done to it.

    Bytes that are not UTF-8, and characters that a terminal might act on, are shown as escapes.
    """
    checked_letter(letter_id)
    site = load_installation()
    setup = setup_of(site, ladder)

    async def act(redis: Redis) -> Inspection | None:
        from match_ratings_worker.dead_letters import Letters, inspect

        [letter] = await Letters(redis, setup).get([letter_id])
        return None if letter is None else await inspect(redis, setup, letter)

    found = carry_out(site, act)
    if found is None:
        raise CommandError(f"{letter_id} is no dead letter of ladder {setup.ladder}", NOT_FOUND)
    if json:
        print_json(found.document(setup.ladder))
    else:
        _print(found, setup.ladder)


def _print(found: Inspection, ladder: str) -> None:
    from match_ratings_worker.dead_letters.edit_history import entries

    letter = found.letter
    heading(f"{letter.id} on ladder {ladder}: {letter.reason}")
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
    if found.fields:
        heading("read as")
        fields(found.fields)
    for trouble in found.troubles:
        heading(f"wrong: {trouble.where}")
        pairs = [("found", trouble.what), ("allowed", trouble.allowed)]
        if trouble.suggestion:
            pairs.append(("perhaps", _edit_command(letter.id, trouble.suggestion)))
        fields(pairs)
    heading("replayed now")
    fields([("", says(found.verdict))], indent=0)
    if history := entries(letter.history):
        heading("history")
        fields([_done(item) for item in history])


def _bytes(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message) - _SHOWN} bytes more)" if len(message) > _SHOWN else "")


def _edit_command(letter_id: str, setting: str) -> str:
    return f"match-ratings dead-letters edit {letter_id} --set {setting} --why ..."


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
    from match_ratings import RatingUpdated

    text = verdict.outcome.value.replace("-", " ")
    if verdict.event is not None:
        event = RatingUpdated.model_validate_json(verdict.event)
        parts = [f"{part.player} {part.before} -> {part.after}" for part in event.players]
        text += f": {', '.join(parts)}" + ("; late" if event.late else "")
    return f"{text}: {verdict.detail}" if verdict.detail else text
