"""A group of commands that imports a command's module only when it is called, or its help is shown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo


class LazyCommand(NamedTuple):
    """A command's place, and its line in the help of its group."""

    #: `module:attribute` under cli.commands: a function, or a Typer with commands of its own.
    path: str
    short_help: str

    def load(self, name: str) -> Any:
        """Import the module and return the command under this name."""
        module, _, attribute = self.path.partition(":")
        found = getattr(import_module(f"{__package__}.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = get_group_from_info(
                TyperInfo(found, name=name),
                pretty_exceptions_short=True,
                rich_markup_mode=None,
                suggest_commands=True,
            )
            for command in group.commands.values():
                _simplify_arguments(command)
            return group
        info = CommandInfo(name, cls=TyperCommand, callback=found)
        command = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
        _simplify_arguments(command)
        return command


class _Argument(TyperArgument):
    """An argument shown by its name alone: FILE, [MATCH], ID...; typer adds braces and Python types."""

    def _usage_display_name(self) -> str:
        name = self._rich_display_name()
        return name if self.required else f"[{name}]"

    def _rich_display_name(self) -> str:
        return self.display_name_raw + ("..." if self.nargs != 1 else "")

    def display_type_rich(self, ctx: Any) -> str:
        return ""


def _simplify_arguments(command: Any) -> None:
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = _Argument  # typer has no option for the class of an argument


class _LazyGroup(TyperGroup):
    table: ClassVar[Mapping[str, LazyCommand]]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = self.table.get(cmd_name)
        return None if found is None else found.load(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.short_help) for name, command in self.table.items()])


def lazy_group(table: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """A class for `typer.Typer(cls=...)` whose commands are those of the table, in its order."""
    return type("LazyGroup", (_LazyGroup,), {"table": table})
