"""Where the jar of the twin's fold lies, and which sources it was built from; it builds nothing."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Final

from schemas.errors import Refusal

NAME: Final = "twin-fold.jar"
SOURCES_KEY: Final = "Ivsim-Sources-Sha256"
# Where the wheel carries the jar.
PACKAGE: Final = Path(__file__).resolve().parent
SOURCES: Final = PACKAGE / "fold" / "src" / "main" / "java"
_MANIFEST: Final = "META-INF/MANIFEST.MF"


def built_jar() -> Path:
    """Return where set-up puts the jar in a clone."""
    return PACKAGE.parent / ".jars" / "twin" / NAME


def fold_jar() -> Path:
    """Return the jar: the one that the wheel carries, or a clone's; Refusal when it is missing or older than its sources."""
    carried = PACKAGE / NAME
    if carried.is_file():
        return carried
    jar = built_jar()
    if not jar.is_file():
        raise Refusal(f"{jar}: the twin's fold is not built: run `make setup`")
    if built_from(jar) != source_digest():
        raise Refusal(f"{jar}: built from other sources than {SOURCES}: run `make setup`")
    return jar


def digest() -> str:
    """Return which fold this is: the same for a clone and for the wheel made of it."""
    carried = PACKAGE / NAME
    return built_from(carried) if carried.is_file() else source_digest()


def built_from(jar: Path) -> str:
    """Return the digest of the sources that a jar was built from, "" when it says none."""
    return manifest(jar).get(SOURCES_KEY, "")


def manifest(jar: Path) -> dict[str, str]:
    """Return the main attributes of a jar's manifest that `setup/build_fold.py` wrote; values are short words."""
    with zipfile.ZipFile(jar) as archive:
        lines = archive.read(_MANIFEST).decode("utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def source_digest(sources: Path | None = None) -> str:
    """Return 32 hexadecimal digits over names and contents of Java sources, those of the fold where nothing is said."""
    folder = SOURCES if sources is None else sources
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.java")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:32]
