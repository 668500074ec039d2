"""Where the project's own files lie, in a clone and in an installed wheel; creates none of them."""

from __future__ import annotations

import os
from pathlib import Path

from schemas.errors import Refusal

PACKAGE_DIR = Path(__file__).resolve().parent.parent
ROOT = PACKAGE_DIR.parent


def compose_dir() -> Path:
    """Return the directory of the broker configurations."""
    for candidate in (ROOT / "compose", PACKAGE_DIR / "data" / "compose"):
        if (candidate / "jars" / "pom.xml").is_file():
            return candidate
    raise Refusal(f"the broker configurations are missing: neither {ROOT}/compose nor the package holds them")


def jars_dir(kind: str) -> Path:
    """Return where the jars of `kind` ("kafka", "spark") should be: in `IVSIM_JARS`, else in `.jars`."""
    return Path(os.environ.get("IVSIM_JARS") or ROOT / ".jars") / kind


def installed_jars(kind: str) -> Path:
    """Return the directory of the jars of `kind`; Refusal when it holds none."""
    directory = jars_dir(kind)
    if not any(directory.glob("*.jar")):
        raise Refusal(
            f"no {kind} jars in {directory}: run `make setup` (or set IVSIM_JARS to where they are)"
        )
    return directory


def state_dir() -> Path:
    """Return where runs note what they opened: `IVSIM_STATE_DIR`, else below the user's state directory."""
    if chosen := os.environ.get("IVSIM_STATE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ivsim" / "runs"
