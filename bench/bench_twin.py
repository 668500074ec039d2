"""Measures the twin: append in vehicle.status to append in twin.state, both triggers interleaved on one broker."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.paths import installed_jars
from ivsim.testbed.registry import RunRecord
from ledger.applied import first_containing
from schemas.topics import KafkaTopics, vehicle_id

VEHICLES = 1_000
PAYLOAD_BYTES = 1_157
PHASES = ((1_000, 8.0), (10_000, 8.0), (1_000, 8.0), (10_000, 8.0))
FLOOD_MESSAGES = 200_000
BOUNDARIES = 8


class Twin:
    """One twin process under measurement, and what it was sent."""

    def __init__(self, trigger: str, bootstrap: str, directory: Path, **config: Any) -> None:
        self.trigger = trigger
        self.prefix = f"b{uuid.uuid4().hex[:6]}."
        run_dir = directory / self.prefix
        run_dir.mkdir()
        path = run_dir / "twin.json"
        words = {"run_dir": str(run_dir), "bootstrap": bootstrap, "topics_prefix": self.prefix, "trigger": trigger,
                 "jars_dir": str(installed_jars("spark")), **config}  # fmt: skip
        path.write_text(json.dumps(words))
        self._errors = (run_dir / "log").open("wb")
        self._bootstrap = bootstrap
        self._sequence = 0
        self._config = path
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "twin", str(self._config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def kill_and_start(self) -> None:
        """End Python and Java with SIGKILL, and start them again on what they have left."""
        whole = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for one in whole:
            one.kill()
        self.process.wait(10)
        self.process = self._started()

    def ready(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        event: dict[str, Any] = json.loads(self.process.stdout.readline())
        if event["event"] != "ready":
            raise RuntimeError(str(event))
        return event

    def send(self, rate_per_s: float, seconds: float) -> int:
        """Append messages of all vehicles at an even rate; return how many."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "linger.ms": 1,
                "acks": 1,
                "queue.buffering.max.messages": FLOOD_MESSAGES,  # all of them wait here, where Kafka is slower than we are
            }
        )
        topic = KafkaTopics(self.prefix).status
        keys = [vehicle_id(number) for number in range(1, VEHICLES + 1)]
        values = [key.encode().ljust(PAYLOAD_BYTES, b".") for key in keys]
        started, count = time.perf_counter(), round(rate_per_s * seconds)
        for number in range(count):
            vehicle = number % VEHICLES
            if vehicle == 0:
                self._sequence += 1
            now = b"%d" % time.time_ns()
            headers = [("format", b"protobuf"), ("protocol", b"mqtt"), ("mode", b"qos1"), ("epoch", b"1"),
                       ("sequence", b"%d" % self._sequence), ("sampled_at_ns", now), ("received_at_ns", now)]  # fmt: skip
            producer.produce(topic, values[vehicle], keys[vehicle], headers=headers)
            if number % 20 == 0:
                producer.poll(0)
                ahead = started + number / rate_per_s - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
        producer.flush(60)
        return count

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        self._errors.close()


Stamped = tuple[tuple[int, int], int]


class Tail:
    """Reads a topic on from where the last phase ended: key -> ((epoch, sequence), append stamp in ms)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
        )
        partitions = self._consumer.list_topics(topic, 10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])

    def read(self, until: int | None, quiet_s: float = 3.0) -> dict[bytes, list[Stamped]]:
        """Return what is new: `until` records, or all until nothing comes for `quiet_s`."""
        found: dict[bytes, list[Stamped]] = defaultdict(list)
        count = 0
        while until is None or count < until:
            batch = self._consumer.consume(5_000, quiet_s)
            if not batch:
                break
            count += len(batch)
            for message in batch:
                headers = dict(message.headers())
                found[message.key()].append(
                    ((int(headers["epoch"]), int(headers["sequence"])), message.timestamp()[1])
                )
        return found

    def close(self) -> None:
        self._consumer.close()


class Result(NamedTuple):
    delays_ms: list[int]
    pauses_ms: list[int]  # between successive updates of the fleet, longest first
    updates_per_s: float


def result(sent: dict[bytes, list[Stamped]], states: dict[bytes, list[Stamped]]) -> Result:
    delays: list[int] = []
    for key, messages in sent.items():
        applied = first_containing(messages, states.get(key, []))
        delays += [at - message[1] for message, at in zip(messages, applied, strict=True) if at is not None]
    stamps = sorted(at for rows in states.values() for _, at in rows)
    pauses = sorted((later - earlier for earlier, later in pairwise(stamps)), reverse=True)
    span_s = (stamps[-1] - stamps[0]) / 1e3 if len(stamps) > 1 else math.inf
    return Result(sorted(delays), pauses or [0], len(stamps) / max(span_s, 1e-3))


def rank(values: list[int], share: float) -> int | None:
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else None


def measure(twin: Twin, rate: float, seconds: float, tails: tuple[Tail, Tail]) -> Result:
    count = twin.send(rate, seconds)
    sent = tails[0].read(count)
    if twin.trigger == "realtime":
        return result(sent, tails[1].read(count, quiet_s=10.0))
    return result(sent, tails[1].read(None))


def line(name: str, rate: float, found: Result) -> None:
    quantiles = [rank(found.delays_ms, share) for share in (0.5, 0.95, 0.99, 1.0)]
    print(
        f"| {name} | {rate:,.0f}/s | "
        + " / ".join(map(str, quantiles))
        + f" | {found.pauses_ms[0]} | {len(found.delays_ms):,} |"
    )


def main() -> None:
    """Print the table of docs/twin.md."""
    print(
        f"\n## twin ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {VEHICLES} vehicles, {PAYLOAD_BYTES} B)"
    )
    with (
        tempfile.TemporaryDirectory() as base,
        RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(base)) as record,
        KafkaServer(record, jit="full") as server,
    ):
        run(server.bootstrap, Path(base))


def run(bootstrap: str, directory: Path) -> None:
    extra = json.loads(os.environ.get("BENCH_TWIN_CONFIG", '{"jit": "full"}'))
    twins = [
        Twin("realtime", bootstrap, directory, live="none", **extra),
        Twin("microbatch", bootstrap, directory, live="none", **extra),
    ]
    tails: dict[str, tuple[Tail, Tail]] = {}
    try:
        for twin in twins:
            print(f"{twin.trigger}: ready after {twin.ready()['ready_s']} s (two starting at once)")
            topics = KafkaTopics(twin.prefix)
            tails[twin.prefix] = (Tail(bootstrap, topics.status), Tail(bootstrap, topics.state))
        print(
            "| trigger | rate | p50 / p95 / p99 / max ms | longest pause ms | messages |\n|---|---|---|---|---|"
        )
        for rate, seconds in PHASES:
            for twin in twins:
                line(twin.trigger, rate, measure(twin, rate, seconds, tails[twin.prefix]))
        flood = measure(twins[0], 1e9, FLOOD_MESSAGES / 1e9, tails[twins[0].prefix])
        print(f"real time, {FLOOD_MESSAGES:,} messages at once: {flood.updates_per_s:,.0f} updates/s")
    finally:
        for twin in twins:
            twin.close()
        for pair in tails.values():
            pair[0].close()
            pair[1].close()
    boundaries(bootstrap, directory, extra)


def boundaries(bootstrap: str, directory: Path, extra: dict[str, Any]) -> None:
    """Print the pauses that batch boundaries make, with one every five seconds; the first is a cold JVM's."""
    twin = Twin("realtime", bootstrap, directory, live="none", **{**extra, "realtime_duration_s": 5.0})
    try:
        twin.ready()
        topics = KafkaTopics(twin.prefix)
        tails = (Tail(bootstrap, topics.status), Tail(bootstrap, topics.state))
        found = measure(twin, 1_000, BOUNDARIES * 5.0, tails)
        line("realtime, boundary each 5 s", 1_000, found)
        print(f"the {BOUNDARIES} longest pauses, ms: {' '.join(map(str, found.pauses_ms[:BOUNDARIES]))}")
        for tail in tails:
            tail.close()
    finally:
        twin.close()


if __name__ == "__main__":
    main()
