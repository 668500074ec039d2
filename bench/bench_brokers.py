"""Measures what three brokers of Kafka cost the bridge: runs with three and with one, in turns; ratios of medians."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Final

from ivsim.option_rules import run_options
from ivsim.runs.runner import execute
from schemas.json_files import read_json

RUNS: Final = 5
ONE, THREE = "one broker", "three brokers"


def main() -> None:
    """Print the bridge delay of each run, and the ratios."""
    print(f"\n## brokers ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    with tempfile.TemporaryDirectory() as base:
        brokers(Path(base))


def brokers(base: Path) -> None:
    """Print the bridge delay of runs with one broker and with three, and the ratios."""
    more = {"kafka_brokers": 3, "kafka_replication": 3, "kafka_min_insync": 2}
    found: dict[str, list[tuple[float, float]]] = {ONE: [], THREE: []}
    for number in range(RUNS):
        for name in (ONE, THREE) if number % 2 else (THREE, ONE):
            options = run_options(
                link="direct", vehicles=100, interval_s=1.0, duration_s=20.0, warmup_s=5.0, seed=1 + number,
                **(more if name == THREE else {}),
            )  # fmt: skip
            directory = base / f"{name.replace(' ', '-')}-{number}"
            outcome = execute(options, directory, quiet=True)
            if outcome.error is not None:
                raise SystemExit(f"{name}: {outcome.error}")
            figures = read_json(directory / "metrics.json")
            found[name].append((figures["bridge_delay_p50_ms"], figures["bridge_delay_p99_ms"]))
            print(
                f"{name}: bridge delay p50 {found[name][-1][0]:.1f}, p99 {found[name][-1][1]:.1f} ms",
                flush=True,
            )
    for index, quantile in enumerate(("p50", "p99")):
        one, three = (statistics.median(row[index] for row in found[name]) for name in (ONE, THREE))
        print(f"bridge delay {quantile}, medians: {one:.1f} and {three:.1f} ms, ratio {three / one:.2f}")


if __name__ == "__main__":
    main()
