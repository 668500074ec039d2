"""Measures what a cluster costs: the twin on two Spark workers beside `local[16]`, and the bridge on three brokers beside one.

Each pair in one run, in turns; ratios of medians.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import uuid
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from bench.bench_twin import Tail, Twin, line, measure, rank
from ivsim.option_rules import run_options
from ivsim.runs.runner import execute
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import SparkCluster
from schemas.json_files import read_json
from schemas.topics import KafkaTopics

RATE: Final = 1_000
SECONDS: Final = 10.0
# Of these the first three warm Java up.
PASSES: Final = 8
COLD: Final = 3
RUNS: Final = 5
ONE, THREE = "one broker", "three brokers"


def twins(base: Path) -> None:
    """Print p50 to p99 of both, pass by pass, and the ratio of p99."""
    with ExitStack() as stack:
        record = stack.enter_context(RunRecord(f"b{uuid.uuid4().hex[:8]}", base))
        server = stack.enter_context(KafkaServer(record, jit="full"))
        cluster = stack.enter_context(SparkCluster(record, 2))
        own = {"live": "none", "jit": "full"}
        place = {
            "spark_master": cluster.url,
            "spark_conf": cluster.conf,
            "checkpoint_dir": f"file://{cluster.shared}/twin",
        }
        both = {}
        for name, config in (("local[16]", own), ("two workers", own | place)):
            twin = stack.enter_context(closing(Twin("realtime", server.bootstrap, base, **config)))
            print(f"{name}: ready after {twin.ready()['ready_s']} s")
            topics = KafkaTopics(twin.prefix)
            tails = [
                stack.enter_context(closing(Tail(server.bootstrap, one)))
                for one in (topics.status, topics.state)
            ]
            both[name] = twin, (tails[0], tails[1])
        print(
            "| twin | rate | p50 / p95 / p99 / max ms | longest pause ms | messages |\n|---|---|---|---|---|"
        )
        p99: dict[str, list[int]] = {name: [] for name in both}
        for number in range(PASSES):
            for name in list(both)[:: 1 if number % 2 else -1]:
                found = measure(both[name][0], RATE, SECONDS, both[name][1])
                line(name, RATE, found)
                if number >= COLD:
                    p99[name].append(rank(found.delays_ms, 0.99) or 0)
        local, spread = (statistics.median(values) for values in p99.values())
        print(f"p99, medians behind the third pass: {local:g} and {spread:g} ms, ratio {spread / local:.2f}")


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


def main() -> None:
    """Print both."""
    print(f"\n## cluster ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    with tempfile.TemporaryDirectory() as base:
        (Path(base) / "twins").mkdir()
        twins(Path(base) / "twins")
        brokers(Path(base))


if __name__ == "__main__":
    main()
