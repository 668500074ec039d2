"""How commands take a result: a path, or the name of a run in `results`."""

from __future__ import annotations

from pathlib import Path


def result_path(word: str) -> Path:
    """Return the path that a word of the command line stands for."""
    from ivsim.library.folder import named  # noqa: PLC0415 - --help need not wait

    return named(Path(word))
