"""Where the processes of a run find each other: addresses, topics and credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ivsim.mix import FleetPart
from ivsim.options import RunOptions
from ivsim.testbed.credentials import Credentials
from ivsim.testbed.server import Broker
from schemas.errors import Refusal
from schemas.kafka_login import client_settings, read_login
from schemas.topics import CLOUD_ADDRESS, KafkaTopics
from simulator.links import Link


@dataclass(frozen=True)
class KafkaAddress:
    """A Kafka broker and the run's topics there; `bootstrap` is empty where the topology has none.

    Attributes:
        login: path of the file by which clients log in; "" without.
    """

    bootstrap: str = ""
    topics: KafkaTopics = field(default_factory=KafkaTopics)
    login: str = ""

    def client_settings(self) -> dict[str, Any]:
        """Return librdkafka's properties that lead a client there."""
        return client_settings(self.bootstrap, self.login)


def login_of(options: RunOptions) -> str:
    """Return the path of the file by which one logs in at a Kafka that is there, "" without; Refusal names a bad one."""
    if options.kafka_login is None:
        return ""
    path = str(Path(options.kafka_login).absolute())
    authority = Path(read_login(path).authority)
    if not authority.is_absolute():
        raise Refusal(f"kafka_login {path}: authority {authority}: write its whole path")
    if not authority.is_file():
        raise Refusal(f"kafka_login {path}: authority {authority}: no such file")
    return path


@dataclass(frozen=True)
class Endpoints:
    """The addresses of one run.

    Attributes:
        host, ports: where vehicles send to, by protocol: its broker, or the gateway itself.
        cloud_namespace, vehicles_namespace, vehicles_device: of the link.
        credentials: what the broker checks and its clients show.
    """

    ports: Mapping[str, int]
    cloud_namespace: str
    vehicles_namespace: str
    vehicles_device: str
    kafka: KafkaAddress
    credentials: Credentials
    host: str = CLOUD_ADDRESS

    @classmethod
    def of(
        cls,
        parts: Sequence[FleetPart],
        link: Link,
        brokers: Mapping[str, Broker],
        kafka: KafkaAddress,
        credentials: Credentials,
    ) -> Endpoints:
        """Return the addresses of a run with this link, and with the brokers by kind, or the target."""
        ports = {}
        for protocol in (part.protocol for part in parts):
            listening = brokers.get(protocol.broker or protocol.name)
            port = protocol.port if listening is None else listening.port
            assert port is not None, "where nobody else listens the gateway does"
            ports[protocol.name] = port
        return cls(
            ports=ports,
            cloud_namespace=link.cloud_namespace,
            vehicles_namespace=link.vehicles_namespace,
            vehicles_device=link.vehicles_device,
            kafka=kafka,
            credentials=credentials,
        )
