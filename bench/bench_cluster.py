"""Measures what a Spark cluster costs: the twin on two workers beside `local[16]`, on one Kafka, in turns; and kills of its parts.

The two twins take turns, pass by pass. Java compiles for minutes, and every pass is quicker than the one before: a pass is
compared with the other twin's of the same number, and the ratio is the median of those from STEADY on.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bench.bench_twin import Tail, Twin, line, measure, rank
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import SparkCluster
from schemas.topics import KafkaTopics

RATE: Final = 1_000
SECONDS: Final = 10.0
PASSES: Final = 18
STEADY: Final = 12
# Kills: messages/s, how long they come, and when the part is killed.
KILL_RATE: Final = 300
KILL_SECONDS: Final = 60.0
KILLED_AT_S: Final = 8.0
KILLS: Final = 3


def main() -> None:
    """Print both twins' passes, and the ratio."""
    print(f"\n## cluster ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    with tempfile.TemporaryDirectory() as base:
        kills(Path(base))
    with tempfile.TemporaryDirectory() as base:
        twins(Path(base))


def kills(base: Path) -> None:
    """Print for how long no twin took a new message, an executor and the driver killed in turns."""
    print("| killed | no new message in a twin for, s |\n|---|---|")
    with ExitStack() as stack:
        record = stack.enter_context(RunRecord(f"b{uuid.uuid4().hex[:8]}", base))
        server = stack.enter_context(KafkaServer(record, jit="quick"))
        cluster = stack.enter_context(SparkCluster(record, 2))
        for number in range(KILLS):
            for what in ("executor", "driver")[:: 1 if number % 2 else -1]:
                print(f"| {what} | {_silence_s(base, server.bootstrap, cluster, what):.1f} |", flush=True)


def _silence_s(base: Path, bootstrap: str, cluster: SparkCluster, what: str) -> float:
    config = _on(cluster) | {"live": "none", "reopenings": 3}
    with closing(Twin("realtime", bootstrap, base, **config)) as twin:
        twin.ready()
        state = KafkaTopics(twin.prefix).state
        sender = threading.Thread(target=twin.send, args=(KILL_RATE, KILL_SECONDS))
        sender.start()
        time.sleep(KILLED_AT_S)  # the kill's place in the load: no wait for anything
        if what == "executor":
            os.kill(cluster.workers[0].executors()[0], signal.SIGKILL)
        else:
            twin.kill_and_start()
        sender.join()
        with closing(Tail(bootstrap, state)) as tail:
            states = tail.read(None, quiet_s=5.0)
    # What is folded again behind the restart is no news.
    first: dict[tuple[bytes, tuple[int, int]], int] = {}
    for key, stamped in states.items():
        for message, at_ms in stamped:
            first.setdefault((key, message), at_ms)
    stamps = sorted(first.values())
    return max(later - earlier for earlier, later in pairwise(stamps)) / 1e3


def _on(cluster: SparkCluster) -> dict[str, Any]:
    return {
        "spark_master": cluster.url,
        "spark_conf": cluster.conf,
        "checkpoint_dir": f"file://{cluster.shared}/twin-{uuid.uuid4().hex[:6]}",
    }


def twins(base: Path) -> None:
    """Print p50 to p99 of both, pass by pass, and the ratio of p99."""
    with ExitStack() as stack:
        record = stack.enter_context(RunRecord(f"b{uuid.uuid4().hex[:8]}", base))
        server = stack.enter_context(KafkaServer(record, jit="full"))
        cluster = stack.enter_context(SparkCluster(record, 2))
        # As a run of that load has it: `jit` stays "quick" up to 2,000 messages/s.
        own = {"live": "none"}
        both = {}
        for name, config in (("local[16]", own), ("two workers", own | _on(cluster))):
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
                p99[name].append(rank(found.delays_ms, 0.99) or 0)
        local, spread = (values[STEADY:] for values in p99.values())
        ratios = sorted(above / below for above, below in zip(spread, local, strict=True))
        print(
            f"p99 of passes {STEADY + 1} to {PASSES}, medians: {statistics.median(local):g} and {statistics.median(spread):g} ms;"
            f" ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
