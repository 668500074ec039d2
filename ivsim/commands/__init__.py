"""The sub-commands, one file and one line each."""

from __future__ import annotations

from importlib import import_module

import typer

# word on the command line -> module that has `app`
COMMANDS = {
    "trace": "ivsim.commands.trace",
}


def mount(app: typer.Typer) -> None:
    """Add every sub-command to the command line."""
    for name, module in COMMANDS.items():
        app.add_typer(import_module(module).app, name=name)
