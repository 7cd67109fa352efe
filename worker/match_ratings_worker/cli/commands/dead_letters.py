"""The group of the dead-letters commands."""

from __future__ import annotations

from typing import Final

import typer

from match_ratings_worker.cli.lazy_group import LazyCommand, lazy_group

_HELP: Final = "Show, correct and replay messages that could not be rated."

_COMMANDS: Final = {
    "list": LazyCommand("dead_letters_list:list_dead_letters", "List them, with what is wrong."),
    "show": LazyCommand(
        "dead_letters_show:show", "Show one in full, what is wrong with it, and what would make it valid."
    ),
    "replay": LazyCommand("dead_letters_replay:replay", "Have dead letters rated again."),
    "edit": LazyCommand("dead_letters_edit:edit", "Correct the message of a dead letter."),
    "discard": LazyCommand("dead_letters_discard:discard", "Remove dead letters for good, with a reason."),
    "export": LazyCommand("dead_letters_export_import:export", "Write dead letters as JSON lines."),
    "import": LazyCommand("dead_letters_export_import:restore", "Restore exported dead letters."),
}

app = typer.Typer(cls=lazy_group(_COMMANDS), no_args_is_help=True, help=_HELP)


@app.callback()
def _group() -> None:
    """Show, correct and replay messages that could not be rated."""
