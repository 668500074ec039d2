"""The pipe engine beside what it wraps: its own cost over files, and Kafka at full speed by three producers in turn.

Each round has all three, in an order that moves on: the engine, a bare loop over confluent-kafka, and Kafka's own
kafka-producer-perf-test. Settings are alike (below); a consumer of confluent-kafka reads along with each. A rate is
records acknowledged over the time from the first record to the last acknowledgement, by each one's own clock.

python -m bench.bench_pipe [--rounds N] [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from ivsim.study.engines.pipe.idioms import codec_of, contents
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms.base import OpenPlatform, Place
from ivsim.study.engines.pipe.platforms.kafka_clients import (
    QUEUE_KIB,
    consumer_settings,
    producer_settings,
)
from ivsim.study.engines.pipe.session import Platforms
from ivsim.testbed.kafka import java_command
from ivsim.testbed.paths import installed_jars
from ivsim.testbed.registry import RunRecord

ROUNDS: Final = 5
SECONDS: Final = 6.0
WARMUP_S: Final = 1.0
# The engine's own cost is that of small records; what Protobuf takes to decode them and to read their fields is taken out.
SMALL: Final = {"record": "s1", "format": "protobuf", "content": "encoded"}
# Bytes as they are: what decoding costs is no cost of the engine, and neither other consumer decodes.
RECORD: Final = {"record": "b1k", "format": "raw", "content": "encoded"}
# Said in each client's own words: acks of all replicas, no repeats, no compression, linger 5 ms, batches of 100,000 B.
SETTINGS: Final = {
    "acks": "all",
    "idempotence": False,
    "codec": "none",
    "linger_ms": 5.0,
    "batch_bytes": 100_000,
}
JAVA: Final = {
    "acks": "all",
    "enable.idempotence": "false",
    "compression.type": "none",
    "linger.ms": "5",
    "batch.size": "100000",
    "buffer.memory": str(QUEUE_KIB * 1024),
    "max.request.size": "1000000",
}
TOOL: Final = "org.apache.kafka.tools.ProducerPerformance"
TOOL_NAME: Final = "kafka-producer-perf-test"
JAVA_HEAP: Final = "-Xmx512m"
PRODUCER_US: Final = 3.0
CONSUMER_US: Final = 2.0
LAG_MS: Final = 5.0
LAG_RATE: Final = 5_000.0
NEAR: Final = 0.9
# `[0-9.]` has no comma: the tool writes in the locale of Java, which is set.
SAID: Final = re.compile(r"^([0-9]+) records sent, ([0-9.]+) records/sec", re.MULTILINE)


class Speed(NamedTuple):
    """What one producer came to.

    Attributes:
        records_per_s: acknowledged.
        cpu_us: CPU time of its process by record.
    """

    records_per_s: float
    cpu_us: float


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--bare", help="one end of the bare loop, as JSON (the bench starts this)")
    chosen = parser.parse_args()
    if chosen.bare:
        config = json.loads(chosen.bare)
        print(json.dumps((bare_producer if config["end"] == "producer" else bare_consumer)(config)))
        return
    with (
        tempfile.TemporaryDirectory() as name,
        RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(name)) as record,
        Platforms(record, Path(name)) as platforms,
    ):
        own_cost(platforms, chosen.seconds)
        beside(platforms, chosen.rounds, chosen.seconds)


def own_cost(platforms: Platforms, seconds: float) -> None:
    """Print what the engine itself takes, over files."""
    options = pipe_options({"platform": "null", **SMALL, "duration_s": seconds, "warmup_s": WARMUP_S})
    full = figures_of(platforms.measure(options))
    paced = options.model_copy(update={"rate": LAG_RATE, "content": "prebuilt"})
    lag = figures_of(platforms.measure(paced))["emission_lag_p99_ms"]
    consumer_us = full["consumer_cpu_us"] - full["decode_us"] - full["read_us"]
    table = Table(
        "over files, one producer and one consumer", "found", "at most", title="The engine's own cost"
    )
    table.add_row("CPU of the producer by record, us", f"{full['producer_cpu_us']:.2f}", f"{PRODUCER_US:g}")
    table.add_row(
        "CPU of the consumer by record, less decode and read, us", f"{consumer_us:.2f}", f"{CONSUMER_US:g}"
    )
    table.add_row(f"emission lag p99 at {LAG_RATE:,.0f}/s, ms", f"{lag:.2f}", f"{LAG_MS:g}")
    Console().print(table)


def beside(platforms: Platforms, rounds: int, seconds: float) -> None:
    """Print the three producers side by side."""
    kafka = platforms.open(pipe_options({"platform": "kafka"})).platform
    ways: dict[str, Callable[[], Speed]] = {
        "the engine": lambda: engine(platforms, seconds),
        "bare confluent-kafka": lambda: bare(kafka, seconds),
    }
    try:
        tool = perf_test_class_path()
    except FileNotFoundError as problem:
        print(problem, file=sys.stderr)
    else:
        ways[TOOL_NAME] = lambda: perf_test(kafka, tool, round(seconds * found_speed(speeds)))
    speeds: dict[str, list[Speed]] = {name: [] for name in ways}
    names = list(ways)
    # The tool counts records and not seconds: how many, the first of the others says.
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            speeds[name].append(ways[name]())
    print_speeds(speeds)


def found_speed(speeds: dict[str, list[Speed]]) -> float:
    """Return the median rate of the bare loop so far."""
    return statistics.median(one.records_per_s for one in speeds["bare confluent-kafka"])


def print_speeds(speeds: dict[str, list[Speed]]) -> None:
    """Print medians and ratios, round by round."""
    bare_loop = speeds["bare confluent-kafka"]
    table = Table(
        *("producer", "records/s, each round", "median", "by the bare loop, each round", "median"),
        *("CPU us/record",),
        title=f"Kafka at full speed: one producer, one consumer, 3 partitions, {len(payloads(1)[0]):,} B",
    )
    for name, found in speeds.items():
        ratios = [
            one.records_per_s / other.records_per_s for one, other in zip(found, bare_loop, strict=True)
        ]
        table.add_row(
            name,
            " ".join(f"{one.records_per_s:,.0f}" for one in found),
            f"{statistics.median(one.records_per_s for one in found):,.0f}",
            " ".join(f"{ratio:.2f}" for ratio in ratios),
            f"{statistics.median(ratios):.2f}",
            f"{statistics.median(one.cpu_us for one in found):.2f}",
        )
    Console(width=160).print(table)
    print(f"claim: the engine's median by the bare loop is {NEAR:g} or more")
    if (tool := speeds.get(TOOL_NAME)) is not None:
        ratios = [
            one.records_per_s / other.records_per_s
            for one, other in zip(speeds["the engine"], tool, strict=True)
        ]
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(
            f"the engine by {TOOL_NAME}, each round: {each}; claim: their median, {statistics.median(ratios):.2f},"
            f" is {NEAR:g} or more"
        )
    print(f"settings: {SETTINGS}; Java: {JAVA}")


def engine(platforms: Platforms, seconds: float) -> Speed:
    """Measure by the engine."""
    options = pipe_options({**RECORD, **SETTINGS, "duration_s": seconds, "warmup_s": WARMUP_S})
    found = platforms.measure(options)
    acknowledged = found.ledger.produced.acknowledged_at_ns
    span_ns = int(acknowledged.max()) - found.start_at_ns
    figures = figures_of(found)
    return Speed(figures["acknowledged"] / (span_ns / 1e9), figures["producer_cpu_us"])


def bare(kafka: OpenPlatform, seconds: float) -> Speed:
    """Measure a bare loop, with a bare consumer beside it."""
    place = new_place(kafka)
    try:
        with Reading(place):
            config = {"end": "producer", "place": place, "seconds": seconds}
            done = subprocess.run(command(config), check=True, capture_output=True)
    finally:
        kafka.clear(place)
    count, took_s, cpu_s = json.loads(done.stdout)
    return Speed(count / took_s, cpu_s * 1e6 / count)


def perf_test(kafka: OpenPlatform, class_path: str, records: int) -> Speed:
    """Measure Kafka's own tool, with a bare consumer beside it; its CPU time has the start of Java in it."""
    place = new_place(kafka)
    (payload,) = payloads(1)
    argv = [
        *(java_command(), JAVA_HEAP, "-Duser.language=en", "-cp", class_path, TOOL),
        *("--topic", place["topic"], "--num-records", str(records), "--record-size", str(len(payload))),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={place['bootstrap']}"),
        *(f"{name}={value}" for name, value in JAVA.items()),
    ]
    try:
        with Reading(place):
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # What it says fits a pipe: a line each five seconds.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said, problem = process.communicate()
    finally:
        kafka.clear(place)
    totals = SAID.findall(said)
    if process.returncode or not totals or int(totals[-1][0]) != records:
        raise RuntimeError(f"kafka-producer-perf-test: exit code {process.returncode}: {said}{problem}")
    return Speed(float(totals[-1][1]), (usage.ru_utime + usage.ru_stime) * 1e6 / records)


def perf_test_class_path() -> str:
    """Return the class path of Kafka's tools. Raises FileNotFoundError where they are not installed."""
    folder = installed_jars("kafka").resolve()
    if not list(folder.glob("kafka-tools-[0-9]*.jar")):
        raise FileNotFoundError(
            f"kafka-producer-perf-test is left out: no kafka-tools in {folder}: make setup"
        )
    return f"{folder}/*"


def new_place(kafka: OpenPlatform) -> Place:
    return kafka.place(f"bench-{uuid.uuid4().hex[:8]}", pipe_options({}).model_dump(mode="json"))


class Reading:
    """A bare consumer that reads along; a context manager."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        config = {"end": "consumer", "place": self._place}
        self._process = subprocess.Popen(
            command(config), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def __exit__(self, *_: object) -> None:
        said, _nothing = self._process.communicate()  # the end of its input ends it
        assert self._process.returncode == 0
        assert json.loads(said) > 0, "nothing was read"


def command(config: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "bench.bench_pipe", "--bare", json.dumps(config)]


def payloads(count: int) -> list[bytes]:
    codec = codec_of(RECORD["record"], RECORD["format"])
    return [codec.encode(one) for one in contents(RECORD["record"], count, 1)]


def bare_producer(config: dict[str, Any]) -> tuple[int, float, float]:
    """Send until the time is over: what a loop takes that has a callback and counts, and nothing else."""
    place = config["place"]
    settings = pipe_options({**RECORD, **SETTINGS}).model_dump(mode="json")
    producer = Producer(producer_settings(place, settings))
    producer.list_topics(place["topic"], timeout=30)
    made, topic, failed = payloads(1_000), place["topic"], []
    each, partitions = len(made), place["partitions"]

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    produce, poll, now = producer.produce, producer.poll, time.monotonic
    began_s, cpu_s = now(), time.process_time()
    end_s, count = began_s + config["seconds"], 0
    while now() < end_s:
        try:
            produce(topic, made[count % each], None, count % partitions, on_delivery=delivered)
        except BufferError:
            poll(0.01)
            continue
        count += 1
        if count % 64 == 0:
            poll(0)
    left = producer.flush(30)
    took_s = now() - began_s
    assert left == 0
    assert not failed, failed[0]
    return count, took_s, time.process_time() - cpu_s


def bare_consumer(config: dict[str, Any]) -> int:
    """Read until the input ends; return how many records came."""
    place = config["place"]
    consumer = Consumer(consumer_settings(place))
    consumer.assign(
        [TopicPartition(place["topic"], partition, 0) for partition in range(place["partitions"])]
    )
    consumer.poll(0)
    print("ready", flush=True)
    end = select.poll()
    end.register(sys.stdin, select.POLLIN | select.POLLHUP)
    count = 0
    while not end.poll(0):
        first = consumer.poll(0.1)
        if first is not None:
            count += 1 + len(consumer.consume(499, 0))
    consumer.close()
    return count


if __name__ == "__main__":
    main()
