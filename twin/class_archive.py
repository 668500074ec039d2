"""Where the classes of our Java programs lie, loaded and checked ahead; it builds nothing (setup/build_class_archives.py).

Most of the processor time of a start of Spark, and of Kafka, goes into reading and checking some ten thousand classes.
Java keeps them ready to be mapped in a file (AppCDS, JEP 350); it takes such a file only with the same Java, class path
and options that it was made with, and else does without it, so a stale one costs time and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ARCHIVED: Final = ("spark", "kafka")
_CLONE: Final = Path(__file__).resolve().parents[1]


def class_archive(program: str) -> Path:
    """Return where set-up puts the archive of one of ARCHIVED in a clone."""
    return _CLONE / ".jars" / "classes" / f"{program}.jsa"


def java_options(program: str) -> list[str]:
    """Return the options that make Java use the archive; none where there is none, as in a wheel."""
    archive = class_archive(program)
    # Java would print that an archive does not fit; it goes on without.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if archive.is_file() else []
