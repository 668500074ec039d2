"""What the objects that Java still needs take: its heap behind each full collection, from the collector's own log.

The resident memory of a Java process says nothing of a leak: its heap grows to its limit and stays, whatever is garbage in
it. So heaps have their limit from the start, every page touched; a full collection comes each minute; and what is left
behind it is what is judged.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

# "[61.234s] GC(7) Pause Full (System.gc()) 512M->97M(1963M) 210.117ms" (JEP 271)
_FULL: Final = re.compile(r"\[([0-9]+\.[0-9]+)s\].* Pause Full .*\) ([0-9]+)M->([0-9]+)M\([0-9]+M\)")
EACH_S: Final = 60
# Spark asks for a collection by itself, of the kind that its collector has: a full one (Configuration, Memory Management).
SPARK_CONF: Final = (f"spark.cleaner.periodicGC.interval={EACH_S}s",)


def java_options(directory: Path) -> str:
    """Return JAVA_TOOL_OPTIONS for Java processes whose logs are to lie in `directory`."""
    return " ".join(
        (
            "-XX:InitialRAMPercentage=100",
            "-XX:MaxHeapFreeRatio=100",
            "-XX:+AlwaysPreTouch",
            f"-XX:G1PeriodicGCInterval={EACH_S * 1_000}",
            "-XX:-G1PeriodicGCInvokesConcurrent",
            "-XX:G1PeriodicGCSystemLoadThreshold=0",
            f"-Xlog:gc:file={directory}/%p.gc:uptime",
        )
    )


def heaps(directory: Path) -> dict[int, list[tuple[float, float]]]:
    """Return for each process the age in s and the MB that were left at each full collection."""
    found = {}
    for path in directory.glob("*.gc"):
        rows = [
            (float(match[1]), float(match[3]) * 1.048576)
            for match in map(_FULL.search, path.read_text(errors="replace").splitlines())
            if match
        ]
        if rows:
            found[int(path.stem)] = rows
    return found
