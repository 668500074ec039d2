"""A Kafka broker of the run's own, and the probe of one that was named; makes topics, writes no record."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ivsim.testbed.paths import compose_dir, installed_jars
from ivsim.testbed.process import OwnedProcess, hold_port
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.topics import KafkaTopics
from twin.listed_topics import await_listed

START_TIMEOUT_S = 60.0
TOPIC_TIMEOUT_S = 30.0
MESSAGE_MAX_BYTES = 16_777_216
# The formatting tool lives for a second: most of that is the start of Java itself.
SHORT_LIVED_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class KafkaServer:
    """One KRaft node on loopback, with its log in the run's directory.

    A context manager: it answers when `__enter__` returns and is gone when `__exit__` does.
    """

    def __init__(self, record: RunRecord, *, heap_mb: int = 512, name: str = "kafka") -> None:
        self._record = record
        self._heap_mb = heap_mb
        self._name = name
        self._data_dir = record.directory / name
        self._process: OwnedProcess | None = None
        self._holders: list[socket.socket] = []
        self._argv: list[str] = []
        self.bootstrap = ""

    def __enter__(self) -> Self:
        java = java_command()
        class_path = f"{installed_jars('kafka')}/*"
        self._record.scratch(self._data_dir)
        try:
            properties = self._configure()
            self._format(java, class_path, properties)
            self._argv = [java, f"-Xmx{self._heap_mb}m", "-cp", class_path, "kafka.Kafka", str(properties)]
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def restart(self) -> None:
        """Start again after a stop or a kill, with the same address and log."""
        self.process.stop()
        self._start()

    def _start(self) -> None:
        self._process = OwnedProcess(self._name, self._argv, self._record)
        self._process.wait_ready(lambda: answers(self.bootstrap, timeout_s=1.0), START_TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()
        for holder in self._holders:
            holder.close()
        shutil.rmtree(self._data_dir, ignore_errors=True)

    @property
    def process(self) -> OwnedProcess:
        """The running broker; for liveness checks and for faults on purpose."""
        assert self._process is not None, "the broker is not started"
        return self._process

    def _configure(self) -> Path:
        self._holders = [hold_port(), hold_port()]
        port, controller_port = (holder.getsockname()[1] for holder in self._holders)
        self.bootstrap = f"127.0.0.1:{port}"
        self._data_dir.mkdir(parents=True)
        properties = self._data_dir / "server.properties"
        own = {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self._data_dir / "log"),
        }
        shared = (compose_dir() / "kafka" / "server.properties").read_text()
        properties.write_text(shared + "".join(f"{key}={value}\n" for key, value in own.items()))
        return properties

    def _format(self, java: str, class_path: str, properties: Path) -> None:
        done = subprocess.run(
            [java, "-Xmx128m", *SHORT_LIVED_JAVA, "-cp", class_path, "kafka.tools.StorageTool", "format",
             "-t", cluster_id(), "-c", str(properties)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Refusal(
                f"Kafka's storage could not be formatted: {(done.stderr or done.stdout).strip()[-400:]}"
            )


def cluster_id() -> str:
    """Return a new cluster id: 16 bytes in URL-safe base64 that never begin with "-", like an option."""
    first, *others = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *others])).decode().rstrip("=")


def java_command() -> str:
    """Return the path of `java`; Refusal when there is none."""
    java = shutil.which("java")
    if java is None:
        raise Refusal("no Java found: run `make setup`, or install a JRE of version 17 or newer")
    return java


def answers(bootstrap: str, timeout_s: float) -> bool:
    """Return whether a Kafka broker at `bootstrap` answers a metadata request in time."""
    try:
        return bool(_admin(bootstrap).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def probe(bootstrap: str, timeout_s: float = 5.0) -> None:
    """Return when the Kafka broker named by the user answers; else Refusal."""
    host, _, port = bootstrap.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise Refusal(f"--kafka {bootstrap}: expected HOST:PORT")
    if not answers(bootstrap, timeout_s):
        raise Refusal(f"--kafka {bootstrap}: no Kafka broker answered within {timeout_s:g} s")


def create_topics(bootstrap: str, topics: KafkaTopics, *, partitions: int = 2) -> None:
    """Create the topics of a run, stamped by the broker; `twin.state` keeps the newest record per key.

    They are there for everyone when it returns.
    """
    _create(bootstrap, [_new_topic(name, partitions, compact=name == topics.state) for name in topics.all()])


def create_topic(bootstrap: str, name: str, *, partitions: int = 2, compact: bool = False) -> None:
    """Create one topic with the stamps and sizes that every topic of a run has."""
    _create(bootstrap, [_new_topic(name, partitions, compact=compact)])


def delete_topics(bootstrap: str, names: Iterable[str]) -> None:
    """Delete `names` from a broker that is not the run's own; a topic that is gone already is no error."""
    admin = _admin(bootstrap)  # it must live until the last answer is in
    for future in admin.delete_topics(list(names), operation_timeout=TOPIC_TIMEOUT_S).values():
        future.exception(TOPIC_TIMEOUT_S)


def _new_topic(name: str, partitions: int, *, compact: bool) -> NewTopic:
    config = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MESSAGE_MAX_BYTES),
        "retention.ms": "-1",
        "cleanup.policy": "compact" if compact else "delete",
    }
    return NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)


def _create(bootstrap: str, topics: list[NewTopic]) -> None:
    admin = _admin(bootstrap)
    for name, future in admin.create_topics(topics, operation_timeout=TOPIC_TIMEOUT_S).items():
        try:
            future.result(TOPIC_TIMEOUT_S)
        except KafkaException as error:
            raise Refusal(f"Kafka topic {name} on {bootstrap}: {error.args[0].str()}") from error
    await_listed(admin, bootstrap, {topic.topic for topic in topics})


def _admin(bootstrap: str) -> AdminClient:
    # Loggers off: librdkafka writes "connection refused" to standard error while a broker starts.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})
