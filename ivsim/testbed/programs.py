"""Programs of other people: where they are, and how they say their version."""

from __future__ import annotations

import shutil
import subprocess

from ivsim.testbed.paths import how_to_get
from schemas.errors import Refusal

# Debian keeps daemons in sbin, which is not in everybody's PATH.
SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def where(name: str) -> str | None:
    """Return the path of a program, None where it is not installed."""
    return shutil.which(name) or shutil.which(name, path=SEARCH_PATH)


def program(name: str, package: str) -> str:
    """Return the path of a program; Refusal when it is not installed, with the Debian package that has it."""
    path = where(name)
    if path is None:
        raise Refusal(f"no {name} found: {how_to_get(package)}")
    return path


def first_line(*argv: str) -> str:
    """Return the first line that a command prints, "" when it prints none."""
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (said.stdout or said.stderr).partition("\n")[0]
