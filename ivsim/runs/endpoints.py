"""Where the processes of a run find each other: addresses, topics and credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ivsim.mix import FleetPart
from ivsim.options import RunOptions
from ivsim.testbed.credentials import Credentials
from ivsim.testbed.server import Broker
from schemas.kafka_login import check_files, client_settings
from schemas.topics import CLOUD_ADDRESS, KafkaTopics, broker_address, gateway_address, kafka_address
from simulator.links import Link

# At the cloud's end of the link, where gateways at the edge find Kafka.
EDGE_PORT: Final = 9_092


@dataclass(frozen=True)
class KafkaAddress:
    """A Kafka broker, or a platform in its place, and the run's topics there; `bootstrap` is empty where there is none.

    Attributes:
        login: path of the file by which clients log in; "" without.
        behind: of each gateway at the edge, where the relay that it asks has to lead.
    """

    bootstrap: str = ""
    topics: KafkaTopics = field(default_factory=KafkaTopics)
    login: str = ""
    behind: Mapping[int, str] = field(default_factory=dict)

    def client_settings(self) -> dict[str, Any]:
        """Return librdkafka's properties that lead a client there."""
        return client_settings(self.bootstrap, self.login)


def login_of(options: RunOptions) -> str:
    """Return the path of the file by which one logs in at a Kafka that is there, "" without; Refusal names a bad one."""
    return "" if options.kafka_login is None else checked_login(Path(options.kafka_login))


def checked_login(file: Path) -> str:
    """Return the whole path of a file by which one logs in at Kafka; Refusal for what is none."""
    path = str(file.absolute())
    check_files(path)
    return path


@dataclass(frozen=True)
class Endpoints:
    """The addresses of one run.

    Attributes:
        ports: where vehicles send to, by protocol: its broker, or the gateway itself.
        cloud_namespace, vehicles_namespace, vehicles_device: of the link.
        edge: gateways and brokers stand at the vehicles' end, and reach Kafka over the link.
        credentials: what the broker checks and its clients show.
        platform: where gateways deliver, and the consumer reads, in place of Kafka and the twins.
    """

    ports: Mapping[str, int]
    cloud_namespace: str
    vehicles_namespace: str
    vehicles_device: str
    kafka: KafkaAddress
    credentials: Credentials
    edge: bool = False
    platform: KafkaAddress = field(default_factory=KafkaAddress)

    @property
    def deliveries(self) -> KafkaAddress:
        """Where gateways deliver."""
        return self.platform if self.platform.bootstrap else self.kafka

    def host(self, peer: int | None) -> str:
        """Return the address of a gateway at the edge, or of its broker, or of one of several; None is what all share."""
        if peer is None:
            return CLOUD_ADDRESS
        return gateway_address(peer) if self.edge else broker_address(peer)

    @property
    def gateways_namespace(self) -> str:
        """Where gateways meet vehicles, or their broker."""
        return self.vehicles_namespace if self.edge else self.cloud_namespace

    def bootstrap(self, gateway: int) -> str:
        """Return where a gateway finds Kafka, or the platform in its place."""
        return f"{kafka_address(gateway)}:{EDGE_PORT}" if self.edge else self.deliveries.bootstrap

    @classmethod
    def of(
        cls,
        parts: Sequence[FleetPart],
        link: Link,
        brokers: Mapping[str, Broker],
        kafka: KafkaAddress,
        credentials: Credentials,
        *,
        edge: bool = False,
        platform: KafkaAddress | None = None,
    ) -> Endpoints:
        """Return the addresses of a run with this link, and with the brokers by kind (several by name), or the target."""
        ports = {}
        for protocol in (part.protocol for part in parts):
            kind = protocol.broker or protocol.name
            # Of several, one beside each gateway at the edge or behind the link, all are at the same port.
            listening = brokers.get(kind, brokers.get(f"{kind}-0"))
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
            edge=edge,
            platform=platform or KafkaAddress(),
        )
