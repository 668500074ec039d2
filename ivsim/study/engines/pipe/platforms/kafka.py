"""Kafka of the measurement's own: one broker or several, and a topic for each measurement."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaException, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ivsim.study.engines.pipe.platforms.base import (
    LOOPBACK,
    TUNING,
    Host,
    OpenPlatform,
    Place,
    Platform,
    Tool,
)
from ivsim.study.engines.pipe.platforms.kafka_clients import receiver, sender
from ivsim.testbed.credentials import make_keystore
from ivsim.testbed.kafka import KafkaServer, java_command
from ivsim.testbed.kafka_admin import TOPIC_TIMEOUT_S, answers
from ivsim.testbed.kafka_cluster import kafka_cluster
from ivsim.testbed.paths import jars_dir
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.servers import SERVERS
from schemas.errors import Refusal
from schemas.namespace import inside
from twin.listed_topics import await_listed

NAME: Final = "kafka"
BACK_S: Final = 0.5
PRIMED: Final = 5_000
PRIMED_BYTES: Final = 500
PRIME_S: Final = 30.0
PRIMING: Final = {
    "acks": "all",
    "idempotence": False,
    "codec": "none",
    "linger_ms": 0,
    "batch_bytes": 10_000,
    "batch_messages": 20,
    "partitioner": "spread",
    "take": "first",
    "take_records": 100,
    "take_ms": 100,
}
# The record's own timestamp carries its number, from the topic's origin on: a Kafka that checks it against its clock
# would refuse it.
TOPIC: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
    "segment.ms": str(2**63 - 1),
}
# A broker acknowledges what its page cache has, or what it has flushed: each append, and the topic's own setting says so.
FLUSHES: Final[Mapping[str, Mapping[str, str]]] = {"cache": {}, "synced": {"flush.messages": "1"}}


def _perf_test(place: Place, settings: Mapping[str, Any], records: int, record_bytes: int) -> list[str]:
    """Return the command of kafka-producer-perf-test, with the batches of our clients."""
    properties = {
        "acks": settings["acks"],
        "enable.idempotence": str(settings["idempotence"]).lower(),
        "linger.ms": round(settings["linger_ms"]),
        "batch.size": settings["batch_bytes"],
        "compression.type": settings["codec"],
    }
    return [
        *(java_command(), "-Xmx256m", "-cp", f"{jars_dir(NAME).resolve()}/*"),
        *("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", place["bootstrap"]),
        *("--topic", place["topic"], "--num-records", str(records), "--record-size", str(record_bytes)),
        *("--throughput", "-1", "--command-property"),
        *(f"{name}={value}" for name, value in properties.items()),
    ]


class Kafka(Platform):
    """A broker in KRaft mode; see the module."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "Apache Kafka, brokers of its own, by confluent-kafka"
    settings: ClassVar[frozenset[str]] = frozenset(
        {
            *("codec", "acks", "idempotence", "linger_ms", "batch_bytes", "batch_messages", "partitioner"),
            *("brokers", "replication", "min_insync", "security", "commit", "durability", "link"),
            *("in_flight", "queue_messages", "expiry_ms", "batching"),
        }
    )
    clients: ClassVar[str] = "ivsim.study.engines.pipe.platforms.kafka_clients"
    # Apart: it imports SciPy, which takes a process half a second.
    choosing: ClassVar[str | None] = "ivsim.study.engines.pipe.platforms.kafka_batching"
    packages: ClassVar[tuple[str, ...]] = ("confluent-kafka",)
    seconds: ClassVar[float] = 12.0
    has_brokers: ClassVar[bool] = True
    record_bytes: ClassVar[int] = 1_000_000
    durability: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"cache": "flush.messages as installed: the page cache", "synced": "flush.messages=1"}
    )
    partitioners: ClassVar[tuple[str, ...]] = ("spread", "sticky", "key", "own")
    tool: ClassVar[Tool | None] = Tool(
        "kafka-producer-perf-test", _perf_test, re.compile(r"([0-9.]+) records/sec")
    )
    tuning: ClassVar[frozenset[str]] = frozenset(TUNING)
    # librdkafka 2.16, CONFIGURATION.md.
    defaults: ClassVar[Mapping[str, Any] | None] = MappingProxyType(
        {
            "acks": "all",
            "idempotence": False,
            "linger_ms": 5.0,
            "batch_bytes": 1_000_000,
            "batch_messages": 10_000,
            "in_flight": 1_000_000,
            "fetch_min_bytes": 1,
        }
    )

    def missing(self) -> str | None:
        try:
            SERVERS[NAME].find()
            java_command()
        except Refusal as refusal:
            return str(refusal)
        return None

    def refuses(self, settings: Mapping[str, Any]) -> tuple[str, str] | None:
        lack = codec_lack(settings["codec"])
        return super().refuses(settings) if lack is None else ("codec", f"cannot be had here: {lack}")

    def acknowledges(self, settings: Mapping[str, Any]) -> bool:
        return bool(settings["acks"] != "0")

    @contextmanager
    def open(
        self, record: RunRecord, work: Path, brokers: int = 1, host: Host = LOOPBACK
    ) -> Iterator[OpenPlatform]:
        work.mkdir(parents=True, exist_ok=True)
        with record.scratch_within(work / f"kafka-keys-{brokers}") as keys:
            keystore, authority = make_keystore(keys, host.address)
            with kafka_cluster(
                record,
                brokers,
                name=NAME if brokers == 1 else f"{NAME}-of-{brokers}",
                keystore=keystore,
                host=host.address,
                namespace=host.namespace,
                machine=host.machine,
                jit="full",
            ) as servers:
                topics = Topics(servers, authority, host.namespace)
                with inside(host.namespace):
                    prime(topics, brokers)
                yield topics


@cache
def codec_lack(codec: str) -> str | None:
    """Return why this librdkafka cannot compress so, in its own words; it is built with or without each codec."""
    try:
        Producer({"compression.codec": codec, "log_level": 0})
    except KafkaException as error:
        return f"librdkafka {libversion()[0]}: {error.args[0].str()}"
    return None


class Topics:
    """A topic for each measurement, on brokers that stay up for all.

    Args:
        servers: the brokers.
        authority: PEM file against which clients check them, where they use TLS.
        namespace: in which they stand; who asks them stands there meanwhile.
    """

    def __init__(self, servers: Sequence[KafkaServer], authority: Path, namespace: str | None = None) -> None:
        self._servers = servers
        self._namespace = namespace
        self._authority = authority
        self._bootstrap = ",".join(server.bootstrap for server in servers)
        # Loggers off: librdkafka writes to standard error what the measurement's own checks say.
        with inside(namespace):  # its threads stay where they were born
            self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def place(self, name: str, settings: Mapping[str, Any]) -> Place:
        topic = NewTopic(
            name,
            num_partitions=settings["partitions"],
            replication_factor=settings["replication"],
            config={
                **TOPIC,
                "min.insync.replicas": str(settings["min_insync"]),
                **FLUSHES[settings.get("durability", "cache")],
            },
        )
        (future,) = self._admin.create_topics([topic]).values()
        future.result(TOPIC_TIMEOUT_S)
        await_listed(self._admin, self._bootstrap, {name})
        origin_ms = time.time_ns() // 1_000_000
        place: Place = {"topic": name, "partitions": settings["partitions"], "origin_ms": origin_ms}
        if settings["security"] == "plain":
            return {**place, "bootstrap": self._bootstrap}
        secure = ",".join(server.secure for server in self._servers)
        return {**place, "bootstrap": secure, "authority": str(self._authority)}

    def ends(self, place: Place) -> dict[int, int]:
        asked = {
            TopicPartition(place["topic"], partition): OffsetSpec.latest()
            for partition in range(place["partitions"])
        }
        futures = self._admin.list_offsets(asked)
        try:
            return {one.partition: future.result(TOPIC_TIMEOUT_S).offset for one, future in futures.items()}
        except TimeoutError:
            raise NotReady(f"Kafka did not say its offsets within {TOPIC_TIMEOUT_S:g} s") from None
        except KafkaException as error:
            raise NotReady(f"Kafka did not say its offsets: {error.args[0].str()}") from error

    def stored_bytes(self, place: Place) -> int | None:
        names = f"{place['topic']}-*/*.log"
        return sum(path.stat().st_size for server in self._servers for path in server.log.glob(names))

    def pids(self) -> Mapping[str, int]:
        return {f"broker-{index}": server.process.pid for index, server in enumerate(self._servers)}

    def check(self) -> None:
        for server in self._servers:
            server.process.check()

    def kill(self, index: int) -> None:
        self._servers[index].process.kill()
        self._servers[index].relaunch()

    def back(self, place: Place) -> bool:
        self.check()
        with inside(self._namespace):
            if not all(answers(server.bootstrap, BACK_S) for server in self._servers):
                return False
        try:
            await_listed(self._admin, self._bootstrap, {place["topic"]})
        except Refusal as refusal:
            raise NotReady(f"after the kill: {refusal}") from refusal
        return True

    def clear(self, place: Place) -> None:
        (future,) = self._admin.delete_topics([place["topic"]], request_timeout=TOPIC_TIMEOUT_S).values()
        future.result(TOPIC_TIMEOUT_S)


def prime(topics: Topics, brokers: int) -> None:
    """Send, read and commit some records once: the first take a broker seconds, while Java loads and compiles.

    Every broker leads a partition of them, and follows the others.

    NotReady when they did not come back.
    """
    settings = {"partitions": brokers, "replication": brokers, "min_insync": 1, "security": "plain"}
    place = topics.place("prime", settings)
    reader = receiver(place, PRIMING, range(brokers))
    reports: list[str | None] = []
    writer = sender(place, PRIMING, 0, lambda _number, problem: reports.append(problem))
    try:
        reader.open()
        writer.open()
        for number in range(1, PRIMED + 1):
            writer.send(number, None, bytes(PRIMED_BYTES), 0)
        writer.flush(PRIME_S)
        until_s, came = time.monotonic() + PRIME_S, 0
        while came < PRIMED and time.monotonic() < until_s:
            came += len(reader.poll().number)
        reader.acknowledge(0, came // brokers - 1)
    finally:
        writer.close()
        reader.close()
        topics.clear(place)
    if came < PRIMED or any(reports):
        raise NotReady(f"Kafka took {PRIMED} first records and gave back {came} within {PRIME_S:g} s")
