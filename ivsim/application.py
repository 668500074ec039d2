"""The Typer application: options of `ivsim` itself, and commands whose modules are imported when they are called."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as click_command

from ivsim.commands import COMMANDS


class LazyGroup(TyperGroup):
    """Lists commands by the table alone, and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in with the help of the table, enough for lists and completion."""
        del ctx
        row = COMMANDS.get(cmd_name)
        return None if row is None else TyperCommand(cmd_name, help=row.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else load(name), rest


def load(name: str) -> Any:
    """Return the command of that name with all that it needs."""
    module = import_module(COMMANDS[name].module)
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    holder.callback()(_group)
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name)(module.command)
    made: Any = click_command(holder)
    found = made.commands[name]
    for command in (found, *getattr(found, "commands", {}).values()):
        command.help = _unwrapped(command.help)
    return found


def _unwrapped(text: str | None) -> str | None:
    """Return a docstring with each paragraph in one line: the terminal breaks it, not the source's width."""
    return text and "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _group() -> None:
    """Make the holder a group, also where it holds a single command."""


app = typer.Typer(
    name="ivsim",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="IoV vehicle-to-cloud digital twin simulator: every message accounted for at every hop.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ivsim.commands.version import command  # noqa: PLC0415 - not before it is needed

        command()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and the commit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Take the options of `ivsim` itself."""
    del version
