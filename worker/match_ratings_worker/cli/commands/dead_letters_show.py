"""`dead-letters show`: one dead letter in full, what is wrong with it, and what can be done."""

from __future__ import annotations

from typing import Any

from match_ratings import RatingUpdated
from match_ratings_worker.cli.configured_ladders import JsonOption, LadderOption, load_installation
from match_ratings_worker.cli.console import format_time, print_fields, print_heading, print_json
from match_ratings_worker.cli.dead_letter_options import IdArgument, checked_letter_id
from match_ratings_worker.cli.exit_codes import CommandError, ExitCode
from match_ratings_worker.cli.run_with_redis import run_on_ladder
from match_ratings_worker.dead_letters import DeadLetterStore, DryRunResult, Inspection, inspect_dead_letter
from match_ratings_worker.storage import LadderHandle, history_items

#: Bytes of a message that are shown.
_SHOWN = 16 * 1024


def show(letter_id: IdArgument, ladder: LadderOption = None, json: JsonOption = False) -> None:
    """Print one dead letter: its bytes, how they are read, what is wrong and where, what would make it
    valid, what a replay would give, and what people have done to it.

    Bytes that are not UTF-8, and characters that a terminal might act on, are shown as escapes.
    """
    checked_letter_id(letter_id)

    async def act(handle: LadderHandle) -> tuple[Inspection, str]:
        [letter] = await DeadLetterStore(handle).get([letter_id])
        if letter is None:
            raise CommandError(f"{letter_id} is no dead letter of ladder {handle.name}", ExitCode.FAILED)
        return await inspect_dead_letter(handle, letter), handle.name

    found, name = run_on_ladder(load_installation(), ladder, act)
    if json:
        print_json(found.document(name))
    else:
        _print(found, name)


def _print(found: Inspection, ladder: str) -> None:
    letter = found.letter
    print_heading(f"{letter.id} on ladder {ladder}: {letter.reason}")
    print_fields(
        [
            ("detail", letter.detail),
            ("dead since", format_time(letter.dead_at)),
            ("first seen", f"{format_time(letter.first_seen)}, attempts {letter.attempts}"),
            ("in the inbox", letter.source_id or "never: it came by a job"),
        ]
    )
    print_heading(f"message, {len(letter.message)} bytes")
    print_fields([("", _message_text(letter.message))], indent=0)
    if found.fields:
        print_heading("read as")
        print_fields(found.fields)
    for trouble in found.troubles:
        print_heading(f"wrong: {trouble.where}")
        pairs = [("found", trouble.what), ("allowed", trouble.allowed)]
        if trouble.suggestion:
            command = f"match-ratings dead-letters edit {letter.id} --set {trouble.suggestion} --why ..."
            pairs.append(("perhaps", command))
        print_fields(pairs)
    print_heading("a replay would give")
    print_fields([("", describe_dry_run(found.dry_run))], indent=0)
    if history := history_items(letter.history):
        print_heading("history")
        print_fields([_history_line(item) for item in history])


def _message_text(message: bytes) -> str:
    shown = message[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + (f"... ({len(message) - _SHOWN} bytes more)" if len(message) > _SHOWN else "")


def _history_line(item: dict[str, Any]) -> tuple[str, str]:
    at = item.get("at")
    when = format_time(at) if isinstance(at, int) else "-"
    text = f"{item.get('who', '?')}: {item.get('why', '?')}"
    if "force_late" in item:
        text += f" (forced; proof: {item['force_late']})"
    before = item.get("message", item.get("message_base64"))
    if before is not None:
        text += f"; before: {before}"
    return when, text


def describe_dry_run(result: DryRunResult) -> str:
    """A predicted outcome in one line, with the ratings before and after."""
    text = result.outcome.value.replace("-", " ")
    if result.event is not None:
        event = RatingUpdated.model_validate_json(result.event)
        parts = [f"{part.player} {part.before} -> {part.after}" for part in event.players]
        text += f": {', '.join(parts)}" + ("; late" if event.late else "")
    return f"{text}: {result.detail}" if result.detail else text
