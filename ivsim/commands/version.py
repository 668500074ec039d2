"""`ivsim version` and `ivsim --version`: which code this is."""

from __future__ import annotations

from ivsim.code_version import version_line


def command() -> None:
    """Print the version and the commit it was made from."""
    print(version_line())
