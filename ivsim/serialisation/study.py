"""The serialisation study: measures, then writes results.json, figures and report.md into one folder."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from statistics import fmean, pstdev, quantiles
from typing import Any, Final

from ivsim.serialisation import figures, memory, report, thesis, timing
from ivsim.serialisation.corpus import MESSAGES, corpus
from schemas.formats import FORMATS

LIBRARIES: Final = ("protobuf", "msgspec", "fastavro", "flatbuffers")


def run(output_dir: str | Path, quick: bool = False) -> Path:
    """Measure everything and return the path of the report.

    Args:
        output_dir: where results.json, sizes.svg, times.svg and report.md go; made when missing.
        quick: fewer messages and repetitions, to see that it works; its figures are for nothing else.
    """
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lengths = sizes(300 if quick else MESSAGES)
    found: dict[str, Any] = {
        "quick": quick,
        "machine": machine(),
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "sizes": {name: _distribution(by_variant) for name, by_variant in lengths.items()},
        "repetitions": 20 if quick else 1_000,
        "vehicles_per_variant": 1 if quick else 3,
    }
    measured = timing.measure(found["repetitions"], found["vehicles_per_variant"])
    found["times"] = [row._asdict() for row in measured]
    amount = 100 if quick else 500
    found["memory"] = [
        memory.peak(name, direction, amount)._asdict()
        for name in timing.STUDIED
        for direction in memory.DIRECTIONS
    ]
    found["thesis"] = [row._asdict() for row in thesis.measure(20 if quick else 1_000)]
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    drawn = {name: _all(lengths[name]) for name in ("json", "protobuf", "flatbuffers")}
    figures.sizes(folder / "sizes.svg", drawn)
    figures.times(folder / "times.svg", report.mean_times(found["times"]))
    path = folder / "report.md"
    path.write_text(report.text(found))
    return path


def sizes(messages: int) -> dict[str, dict[str, list[int]]]:
    """Return payload lengths of the corpus: format -> variant -> bytes of each message."""
    lengths: dict[str, dict[str, list[int]]] = {name: defaultdict(list) for name in timing.STUDIED}
    for variant, status in corpus(messages):
        for name, by_variant in lengths.items():
            by_variant[variant].append(len(FORMATS[name].encode(status)))
    return lengths


def machine() -> dict[str, str]:
    """Return what the times depend on."""
    versions = {name: metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}


def _all(by_variant: dict[str, list[int]]) -> list[int]:
    return [length for lengths in by_variant.values() for length in lengths]


def _distribution(by_variant: dict[str, list[int]]) -> dict[str, dict[str, float]]:
    return {name: _figures(lengths) for name, lengths in (*by_variant.items(), ("all", _all(by_variant)))}


def _figures(lengths: list[int]) -> dict[str, float]:
    twentieths = quantiles(lengths, n=20, method="inclusive") if len(lengths) > 1 else lengths * 19
    return {
        "messages": len(lengths),
        "mean": fmean(lengths),
        "sd": pstdev(lengths),
        "min": min(lengths),
        "p5": twentieths[0],
        "p50": twentieths[9],
        "p95": twentieths[18],
        "max": max(lengths),
    }
