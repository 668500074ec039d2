"""Measures CPU time per message of MQTT gateways beside each other, in turns: ours, ours of another checkout, and Telegraf.

    python -m bench.peer_gateway --telegraf PATH [--other CHECKOUT]

The same messages (protobuf) wait at mosquitto in each one's session (QoS 1), then come at a steady rate; each writes them to
Kafka with acks=all. Telegraf (inputs.mqtt_consumer, value parser, outputs.kafka) takes what follows of our settings: QoS 1, a
persistent session, required_acks = -1. It neither reads a payload's header nor stamps a record, which ours does. What a start
costs is measured with an empty session and taken off. Whose records do not all come to Kafka has no figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.bench_bridge import Message, Stand, cpu_s, messages
from bench.mqtt_load import publish_paced
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord

BACKLOG: Final = 60_000
PACED_PER_S: Final = 2_000
PACED_S: Final = 15
WAIT_S: Final = 120.0
CONNECTED_S: Final = 3.0  # from its start until its session is at the broker and it has nothing to do
OURS: Final = "ours"
TELEGRAF: Final = "telegraf"
_TELEGRAF: Final = """
[agent]
  interval = "1s"
  flush_interval = "100ms"
  metric_batch_size = 1000
  metric_buffer_limit = 200000
  omit_hostname = true
  quiet = true
[[inputs.mqtt_consumer]]
  servers = ["tcp://{host}:{port}"]
  topics = ["vehicles/#"]
  qos = 1
  persistent_session = true
  client_id = "{client}"
  max_undelivered_messages = 30000
  data_format = "value"
  data_type = "string"
[[outputs.kafka]]
  brokers = ["{kafka}"]
  topic = "{topic}"
  required_acks = -1
  routing_tag = "topic"
  data_format = "influx"
"""


class Contestant:
    """A gateway of one kind, its session at the broker and its topic."""

    def __init__(self, kind: str, stand: Stand, program: str) -> None:
        self.kind, self.stand, self.program = kind, stand, program

    @contextmanager
    def running(self) -> Iterator[int]:
        """Start it; yield its process id, and stop it in order."""
        if self.kind == TELEGRAF:
            path = self.stand.record.directory / f"{self.stand.run}.conf"
            host, port = self.stand.broker
            path.write_text(
                _TELEGRAF.format(
                    host=host, port=port, kafka=self.stand.kafka, topic=self.stand.topics.status,
                    client=f"bench-{self.stand.run}",
                )
            )  # fmt: skip
            name = f"telegraf-{self.stand.run}-{uuid.uuid4().hex[:4]}"
            process = OwnedProcess(name, [self.program, "--config", str(path)], self.stand.record)
            try:
                yield process.pid
            finally:
                process.stop()
            return
        with self._child() as process:
            yield process.pid

    @contextmanager
    def _child(self) -> Iterator[subprocess.Popen[bytes]]:
        config = {
            "bootstrap": self.stand.kafka, "host": self.stand.broker[0], "port": self.stand.broker[1], "mode": "qos1",
            "name": f"bench-{self.stand.run}", "topics_prefix": self.stand.topics.prefix,
        }  # fmt: skip
        path = self.stand.record.directory / f"{self.stand.run}.json"
        path.write_text(json.dumps(config))
        process = subprocess.Popen(
            [sys.executable, "-m", "gateways", "mqtt", "--config", str(path)], cwd=self.program,
            env={**os.environ, "PYTHONPATH": self.program}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def taken(self) -> int:
        """Return how many records its topic has."""
        consumer = Consumer({"bootstrap.servers": self.stand.kafka, "group.id": self.stand.run})
        topic = self.stand.topics.status
        parts = consumer.list_topics(topic, 10).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, part), 10) for part in parts]
        consumer.close()
        return sum(high for _, high in ends)

    def wait(self, total: int) -> None:
        """Wait until its topic has so many records."""
        end_s = time.monotonic() + WAIT_S
        while (found := self.taken()) < total:
            if time.monotonic() > end_s:
                raise TimeoutError(f"{self.kind}: {found:,} of {total:,} messages in Kafka")
            time.sleep(0.2)  # Kafka tells nobody how far a topic is; within the limit above

    def measure(self, backlog: list[Message], paced: list[Message]) -> tuple[float, float]:
        """Return microseconds of CPU time per message: of a backlog, and at a steady rate."""
        with self.running() as pid:
            time.sleep(CONNECTED_S)
            begin_s = cpu_s(pid)
        self.stand.publish(backlog)
        with self.running() as pid:
            self.wait(len(backlog))
            time.sleep(CONNECTED_S)
            between_s = cpu_s(pid) - begin_s
            start_s = cpu_s(pid)
            publish_paced(self.stand.broker, f"load-{uuid.uuid4().hex[:8]}", paced, PACED_PER_S)
            self.wait(len(backlog) + len(paced))
            end_s = cpu_s(pid)
        return between_s / len(backlog) * 1e6, (end_s - start_s) / len(paced) * 1e6


def main() -> None:
    """Print one line per round, then medians and the ratio to ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--telegraf", help="the program")
    parser.add_argument("--other", help="another checkout of this project")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    here = str(Path(__file__).resolve().parents[1])
    kinds = {OURS: here} | ({"other": asked.other} if asked.other else {})
    kinds |= {TELEGRAF: asked.telegraf} if asked.telegraf else {}
    load = list(messages(BACKLOG + PACED_PER_S * PACED_S))
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        record = RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(name))
        with record, KafkaServer(record, jit="full") as kafka:
            for number in range(asked.rounds):
                order = list(kinds.items())
                for kind, program in order if number % 2 == 0 else reversed(order):
                    # A broker of its own: the sessions of those before would queue each message once more.
                    with MosquittoServer(record, name=f"mosquitto-{kind}-{number}") as broker:
                        one = Contestant(kind, Stand(record, kafka.bootstrap, broker), program)
                        found[kind].append(one.measure(load[:BACKLOG], load[BACKLOG:]))
                    print(f"{kind:10} {found[kind][-1][0]:6.1f} {found[kind][-1][1]:6.1f} us", flush=True)
    for kind, figures in found.items():
        for word, k in (("backlog", 0), (f"{PACED_PER_S:,}/s", 1)):
            ratios = sorted(one[k] / ours[k] for one, ours in zip(figures, found[OURS], strict=True))
            print(f"{kind:10} {word:8} median {median(one[k] for one in figures):6.1f} us,"
                  f" of ours {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
