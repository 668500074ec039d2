"""The option `--progress` of the commands that take a while."""

from __future__ import annotations

from typing import Any

import typer

from ivsim.told import JSON, PROGRESS, TERMINAL
from schemas.errors import Refusal


def progress_option(panel: str | None = None) -> Any:
    """Return the option, for the panel of a command's help."""
    return typer.Option(
        PROGRESS,
        help="How progress is told on standard error: terminal, or json, an object a line, errors too. (default terminal)",
        rich_help_panel=panel,
        metavar="TEXT",
        show_default=False,
    )


def wants_json(progress: str, *, quiet: bool, annotations: str | None = None) -> bool:
    """Return whether objects are wanted; Refusal for another word, and beside what would break their lines."""
    if progress not in (TERMINAL, JSON):
        raise Refusal(f"{PROGRESS} {progress!r}: allowed are {TERMINAL}, {JSON}")
    if progress != JSON:
        return False
    if quiet:
        raise Refusal(f"{PROGRESS} {JSON}: not with --quiet")
    if annotations not in (None, "none"):
        raise Refusal(f"{PROGRESS} {JSON}: not with --annotations, whose lines are no JSON")
    return True
