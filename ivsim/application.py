"""The Typer application: options of `ivsim` itself, and commands whose modules are imported when they are called."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as click_command

from ivsim.commands import COMMANDS
from schemas.errors import Refusal

# How a number is typed. Python and Pydantic take more: 1_000, 5.0 for a whole number, digits of other scripts, spaces.
_NUMBERS: Final = {
    int: (re.compile(r"[+-]?[0-9]+"), "a whole number"),
    float: (re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"), "a number"),
}


class LazyGroup(TyperGroup):
    """Lists commands by the table alone, and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_params(self, ctx: Any) -> Any:
        return [_in_words(param) for param in super().get_params(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in with the help of the table, enough for lists and completion."""
        del ctx
        row = COMMANDS.get(cmd_name)
        return None if row is None else TyperCommand(cmd_name, help=row.help)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with all of its sentence, which Typer cuts at the line's end."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in COMMANDS.items()])

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
        command.get_params = _worded(command.get_params)
        for param in command.params:
            param.process_value = _plain(param)
    return found


def _plain(param: Any) -> Callable[[Any, Any], Any]:
    """Return what takes a parameter's value: Refusal of what is typed for a number and is none, as in a file."""
    take = param.process_value
    kind = _item(param.type_descriptor.annotation)
    form, words = _NUMBERS.get(kind, (None, ""))

    def taken(ctx: Any, value: Any) -> Any:
        for text in value if isinstance(value, list | tuple) else (value,):
            if form is not None and isinstance(text, str) and not form.fullmatch(text):
                name = param.opts[0] if param.param_type_name == "option" else param.metavar
                raise Refusal(f"{name} {text!r}: expected {words}")
        return take(ctx, value)

    return taken


def _worded(get_params: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Return what gives a command's parameters as `--help` shows them: see `_in_words`."""
    return lambda ctx: [_in_words(param) for param in get_params(ctx)]


def _in_words(param: Any) -> Any:
    """Return a parameter with a word for its value, none for a switch, where Typer shows the type's name in Python."""
    if param.param_type_name == "argument":
        param.display_type_rich = lambda ctx: None  # noqa: ARG005 - its name says what it is
    elif param.metavar is None:
        kind = param.type_descriptor.annotation
        param.metavar = "" if kind is bool else _word(kind)
    return param


def _word(kind: Any) -> str:
    from ivsim.option_signature import metavar_of  # noqa: PLC0415 - the list of commands needs none

    return metavar_of(_item(kind))


def _item(kind: Any) -> Any:
    """Return the type of one value of a parameter that may take several."""
    return get_args(kind)[0] if get_origin(kind) is list else kind


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
    rich_markup_mode=None,  # a list of commands needs no Rich, whose import takes as long as all else
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
