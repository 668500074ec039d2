"""How fast a person gets an answer: help and lists, the smallest run from a cold start and on a testbed that is up, its report."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ivsim import Testbed, run_options

TIMES = 9
WORDS = (("--help", 0.3), ("--version", 0.3), ("study list", 0.4), ("trace list", None), ("run --help", None))
SMALLEST = {"vehicles": 5, "duration_s": 15.0}
ON_TESTBED = 3


def main() -> None:
    """Print each figure beside what it may be at most."""
    print(f"{'command':16} {'least s':>8} {'median s':>9} {'CPU s':>7}   at most, s")
    for words, most_s in WORDS:
        took_s, cpu_s = _called(words)
        print(
            f"{words:16} {min(took_s):8.2f} {statistics.median(took_s):9.2f} {cpu_s:7.2f}   {most_s or '-'}",
            flush=True,
        )
    print(
        "5 vehicles, 15 s: at most 12 s to the first message (3 s on a testbed that is up), 15 s to the report, 2 MB"
    )
    print(f"{'run':16} {'to first message s':>19} {'last message to report s':>25} {'report MB':>10}")
    with tempfile.TemporaryDirectory(prefix="ivsim-bench-") as base:
        cold = Path(base) / "cold"
        command = [sys.executable, "-m", "ivsim.cli", "run", "--vehicles", "5", "--duration", "15", "--quiet"]
        # Its own judgement (a busy machine, the link) changes nothing in how long it took.
        subprocess.run([*command, "--output", str(cold)], check=False, stdout=subprocess.DEVNULL)
        _print("cold start", cold)
        with Testbed() as testbed:
            for turn in range(ON_TESTBED):
                output = Path(base) / f"up{turn}"
                testbed.run(run_options(**SMALLEST), output)
                _print(f"testbed, run {turn + 1}", output)


def _called(words: str) -> tuple[list[float], float]:
    """Return how long each call took, and the CPU time of one, in s."""
    took_s = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(TIMES):
        began_s = time.monotonic()
        command = [sys.executable, "-m", "ivsim.cli", *words.split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took_s.append(time.monotonic() - began_s)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took_s, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / TIMES


def _print(name: str, directory: Path) -> None:
    timings = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["timings_s"]
    report_mb = (directory / "report.html").stat().st_size / 1e6
    print(
        f"{name:16} {timings['command_to_first_message_s']:19.1f} {timings['drain_to_report_s']:25.1f} {report_mb:10.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
