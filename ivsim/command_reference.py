"""The commands as pages, made from what `--help` is made from; the documentation's site has one page a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from ivsim.application import load
from ivsim.markdown_table import table


def page(name: str) -> str:
    """Return the page of one command of the table, with those that it groups."""
    command = load(name)
    parts = [f"# ivsim {name}", *_described(command, f"ivsim {name}")]
    for word, below in getattr(command, "commands", {}).items():
        parts += [f"## ivsim {name} {word}", *_described(below, f"ivsim {name} {word}")]
    return "\n\n".join(parts) + "\n"


def _described(command: Any, typed: str) -> Iterator[str]:
    context = typer.Context(command, info_name=typed)
    yield command.help or ""
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield f"```text\n{usage}\n```"
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            panels.setdefault(parameter.rich_help_panel or "", []).append(record)
    for panel, rows in panels.items():
        shown = table(("Option", "Meaning"), [(f"`{name}`", _prose(text)) for name, text in rows])
        yield (f"**{panel}**\n\n" if panel else "") + shown


def _prose(text: str) -> str:
    """Return a help text as Markdown that shows it as it is."""
    for character in "\\*_<[":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
