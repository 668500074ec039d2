"""Measures what a Spark cluster costs: the twin on two workers and on `local[16]`, on one Kafka, in turns; the ratio of medians."""

from __future__ import annotations

import os
import statistics
import tempfile
import uuid
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from bench.bench_twin import Tail, Twin, line, measure, rank
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import SparkCluster
from schemas.topics import KafkaTopics

RATE: Final = 1_000
SECONDS: Final = 10.0
# Of these the first three warm Java up.
PASSES: Final = 8
COLD: Final = 3


def main() -> None:
    """Print both twins' passes, and the ratio."""
    print(f"\n## cluster ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    with tempfile.TemporaryDirectory() as base:
        twins(Path(base))


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


if __name__ == "__main__":
    main()
