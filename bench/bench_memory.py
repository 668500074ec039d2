"""What each part of a run takes of the machine's memory, at rest and per vehicle: the figures of `ivsim/runs/memory.py`.

python -m bench.bench_memory                                                small sizes, some minutes
python -m bench.bench_memory mqtt:10:auto mqtt:5000:auto coap:500:direct    these alone, PROTOCOL:VEHICLES:LINK
python -m bench.bench_memory --per-s 1000 --measured 60 mqtt:500:auto       more messages of as many vehicles

Each size has a testbed of its own, so that no run finds what another has left. A figure is the median of a sample a second
while messages are due, of the memory that the kernel cannot drop: proportional shares of anonymous and shared pages
(`Pss_Anon` and `Pss_Shmem` of /proc/PID/smaps_rollup), without files that are mapped. The runner's is what it has grown by
since before the run. `fell` is by how much the machine's MemAvailable fell at most, other programs included. Java begins with
a heap of 16 MB, other than here one of a 64th of the machine's memory, so that the figures are those of a small machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import psutil

from bench.bench_fleet import WARMUP_S, ordered, together
from gateways.protocols import PROTOCOLS
from ivsim.load.verdict import first_word
from ivsim.option_rules import run_options
from ivsim.runs.counters import RUNNER, PartProcesses
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed

SMALL: Final = ("mqtt:10:auto", "mqtt:500:auto", "coap:500:auto", "amqp:500:auto", "mqtt:500:direct")
JAVA: Final = "-Xms16m"
UNDROPPED: Final = (b"Pss_Anon:", b"Pss_Shmem:")
EVERY_S: Final = 1.0


class Row(NamedTuple):
    """One size: what each part took, and what it came to."""

    size: str
    word: str
    parts_mb: dict[str, float]
    fell_mb: float


class MemorySampler:
    """Is called several times a second while a run goes, and takes a sample once a second."""

    def __init__(self) -> None:
        self.samples: list[dict[str, float]] = []
        self._processes = PartProcesses()
        self._before = undropped_bytes(os.getpid())
        self._next_s = 0.0

    def __call__(self, run: StartedRun) -> None:
        at_s = time.monotonic()
        if at_s < self._next_s:
            return
        self._next_s = at_s + EVERY_S
        self._processes.cpu_s(run)  # looks for the processes
        found = {
            name: float(sum(undropped_bytes(one.pid) for one in processes))
            for name, processes in self._processes.found().items()
        }
        found[RUNNER] -= self._before
        self.samples.append(together(found))


def undropped_bytes(pid: int) -> int:
    """Return what a process has of memory that is no file's; 0 of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(UNDROPPED))


class Available(threading.Thread):
    """Notes the least that is available of the machine's memory; a context manager."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._before = self._least = psutil.virtual_memory().available
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Look four times a second until the block ends."""
        while not self._over.wait(0.25):
            self._least = min(self._least, psutil.virtual_memory().available)

    @property
    def fell_bytes(self) -> int:
        return self._before - self._least


def measure(size: str, per_s: float, measured_s: float, more: dict[str, Any]) -> Row:
    """Run one size on a testbed of its own."""
    protocol, vehicles, link = size.split(":")
    options = run_options(
        protocol=protocol, mode=PROTOCOLS[protocol].default_mode, link=link,
        vehicles=int(vehicles), interval_s=int(vehicles) / per_s, warmup_s=WARMUP_S, duration_s=WARMUP_S + measured_s, **more,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as base, Testbed(Path(base)) as testbed, Available() as available:
        sampler = MemorySampler()
        outcome = testbed.run(options, Path(base) / "results", disturb=sampler)
    word, reasons = first_word(outcome.metrics)
    parts = {name: statistics.median(one.get(name, 0.0) for one in sampler.samples) / 1e6
             for name in (sampler.samples[-1] if sampler.samples else ())}  # fmt: skip
    return Row(size, f"{word} {outcome.error or reasons}".strip(), parts, available.fell_bytes / 1e6)


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table, in MB."""
    names = ordered({name: None for row in rows for name in row.parts_mb})
    lines = [f"{'MB':18}" + "".join(f"{name[:6]:>8}" for name in (*names, "sum", "fell"))]
    for row in rows:
        figures = [*(row.parts_mb.get(name, 0.0) for name in names), sum(row.parts_mb.values()), row.fell_mb]
        lines.append(f"{row.size:18}" + "".join(f"{figure:>8.1f}" for figure in figures))
    return lines


def main() -> int:
    """Return 0 when every run came to figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", default=list(SMALL), help=f"of {', '.join(SMALL)}, or others")
    parser.add_argument("--per-s", type=float, default=100.0, help="messages a second of the fleet")
    parser.add_argument("--measured", type=float, default=15.0, help="s behind the warm-up")
    parser.add_argument("--topology", default="gateway")
    chosen = parser.parse_args()
    os.environ["JAVA_TOOL_OPTIONS"] = JAVA
    rows = []
    for size in chosen.sizes:
        rows.append(measure(size, chosen.per_s, chosen.measured, {"topology": chosen.topology}))
        print(f"  {size}: {rows[-1].word}", file=sys.stderr, flush=True)
    print("\n".join(table(rows)), flush=True)
    return int(any(not row.parts_mb for row in rows))


if __name__ == "__main__":
    sys.exit(main())
