"""`ivsim doctor`: what this machine has and lacks; ivsim.doctor does the work."""

from __future__ import annotations

from typing import Annotated

import typer

from ivsim.doctor import doctor


def command(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed runs left behind.")] = False,
) -> None:
    """Say what is installed, what is missing and how to get it, and which link works here."""
    raise typer.Exit(doctor(clean=clean))
