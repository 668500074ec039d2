"""Where the project's own files lie, in a clone and in an installed wheel; creates none of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.errors import Refusal

PACKAGE_DIR = Path(__file__).resolve().parent.parent
ROOT = PACKAGE_DIR.parent
# The jars of every run: a broker's and Spark's are kept apart, since they need different clients of Kafka.
JARS: Final = ("kafka", "spark")
S3: Final = "s3"
# What `ivsim setup PART` fetches alone.
LEFT_OUT: Final = (S3,)


def compose_dir() -> Path:
    """Return the directory of the broker configurations."""
    for candidate in (ROOT / "compose", PACKAGE_DIR / "data" / "compose"):
        if (candidate / "jars" / "pom.xml").is_file():
            return candidate
    raise Refusal(f"the broker configurations are missing: neither {ROOT}/compose nor the package holds them")


def in_clone() -> bool:
    """Return whether this is a clone, which `make setup` sets up; else it is an installed wheel."""
    return (ROOT / "compose" / "jars" / "pom.xml").is_file()


def set_up() -> str:
    """Return the command that fetches what a run needs and pip does not bring."""
    return "make setup" if in_clone() else "ivsim setup"


def how_to_get(package: str) -> str:
    """Return how to get a system package; `make setup` of a clone brings those that there are."""
    return (
        f"run `make setup`, or `apt-get install {package}`" if in_clone() else f"`apt-get install {package}`"
    )


def jars_digest(kinds: Sequence[str] = JARS) -> str:
    """Return which jars of these kinds this version takes: eight hexadecimal digits over the files that name them."""
    folder = compose_dir()
    poms = [folder / "jars" / "pom.xml", *(folder / "jars" / kind / "pom.xml" for kind in JARS)]
    if kinds != JARS:
        poms = [folder / kind / "pom.xml" for kind in kinds]
    return hashlib.sha256(b"".join(pom.read_bytes() for pom in poms)).hexdigest()[:8]


def jars_root() -> Path:
    """Return the directory of all jars: `IVSIM_JARS`, else a clone's `.jars`, else this version's own in the user's cache."""
    if chosen := os.environ.get("IVSIM_JARS"):
        return Path(chosen)
    if in_clone():
        return ROOT / ".jars"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ivsim" / f"jars-{jars_digest()}"


def jars_dir(kind: str) -> Path:
    """Return where the jars of `kind`, such as one of `JARS`, should be."""
    return jars_root() / kind


def installed_jars(kind: str) -> Path:
    """Return the directory of the jars of `kind`; Refusal when it holds none."""
    directory = jars_dir(kind)
    if not any(directory.glob("*.jar")):
        remedy = f"ivsim setup {kind}" if kind in LEFT_OUT else set_up()
        raise Refusal(f"no {kind} jars in {directory}: run `{remedy}` (or set IVSIM_JARS to where they are)")
    return directory


def state_dir() -> Path:
    """Return where runs note what they opened: `IVSIM_STATE_DIR`, else below the user's state directory."""
    if chosen := os.environ.get("IVSIM_STATE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ivsim" / "runs"
