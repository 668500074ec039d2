"""Where the processes of a run find each other: addresses, topics and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gateways.protocols.base import Protocol
from ivsim.testbed.credentials import Credentials
from ivsim.testbed.server import Broker
from schemas.kafka_login import client_settings
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


@dataclass(frozen=True)
class Endpoints:
    """The addresses of one run.

    Attributes:
        host, port: where vehicles send to: the broker, or the gateway itself.
        cloud_namespace, vehicles_namespace, vehicles_device: of the link.
        credentials: what the broker checks and its clients show.
    """

    port: int
    cloud_namespace: str
    vehicles_namespace: str
    vehicles_device: str
    kafka: KafkaAddress
    credentials: Credentials
    host: str = CLOUD_ADDRESS

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        link: Link,
        broker: Broker | None,
        kafka: KafkaAddress,
        credentials: Credentials,
    ) -> Endpoints:
        """Return the addresses of a run with this link, and with this broker if the protocol has one."""
        port = protocol.port if broker is None else broker.port
        assert port is not None, "without a broker the gateway listens"
        return cls(
            port=port,
            cloud_namespace=link.cloud_namespace,
            vehicles_namespace=link.vehicles_namespace,
            vehicles_device=link.vehicles_device,
            kafka=kafka,
            credentials=credentials,
        )
