"""Where the jar of our own few Java classes lies, and which sources it was built from; it builds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemas.errors import Refusal
from twin import fold_jar

NAME: Final = "kafka-clients-frames.jar"
# Where the wheel carries the jar.
PACKAGE: Final = Path(__file__).resolve().parent
FOLDER: Final = "ivsim/study/engines/pipe/platforms/kafka_libraries"
SOURCES: Final = PACKAGE / "java" / "src" / "main" / "java"


def built_jar() -> Path:
    """Return where set-up puts the jar in a clone."""
    return fold_jar.built_jar().parent.with_name("clients") / NAME


def frames_jar() -> Path:
    """Return the jar: the one that the wheel carries, or a clone's; Refusal when it is missing or older than its sources."""
    carried = PACKAGE / NAME
    if carried.is_file():
        return carried
    jar = built_jar()
    if not jar.is_file():
        raise Refusal(f"{jar}: not built: run `make setup`")
    if fold_jar.built_from(jar) != fold_jar.source_digest(SOURCES):
        raise Refusal(f"{jar}: built from other sources than {SOURCES}: run `make setup`")
    return jar
