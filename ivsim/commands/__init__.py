"""The sub-commands, one file and one line each: a module has `app` (commands of its own) or `command`."""

from __future__ import annotations

from importlib import import_module

import typer

# word on the command line -> module
COMMANDS = {
    "chaos": "ivsim.commands.chaos",
    "link": "ivsim.commands.link",
    "reproduce": "ivsim.commands.reproduce",
    "study": "ivsim.commands.study",
    "trace": "ivsim.commands.trace",
    "twin": "ivsim.commands.twin",
}


def mount(app: typer.Typer) -> None:
    """Add every sub-command to the command line."""
    for name, path in COMMANDS.items():
        module = import_module(path)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
