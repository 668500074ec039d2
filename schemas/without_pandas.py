"""Keeps pandas out of a process of ours that has no use for it, and that somebody waits for.

pyarrow loads pandas at the first array, to learn whether it is given one of its columns; DuckDB does so at the first
parameter. That takes 0.3 to 0.4 s of CPU. Both take an ImportError for "pandas is not installed", and go on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Final

_KEPT_OUT: Final = "pandas"


class _Finder:
    """Asked before the others: the first of `sys.meta_path`."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == _KEPT_OUT:
            raise ModuleNotFoundError(f"this process does without {name}", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let `import pandas` fail in the block with ModuleNotFoundError, unless it is loaded already."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
