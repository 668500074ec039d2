"""What a gateway process is told; checked before anything is opened, never repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from gateways.batching.asked import Batching
from gateways.batching.policies import POLICIES
from gateways.protocols.base import Endpoint, IntakeSettings, SharedKeys, Tls
from gateways.protocols.shared_keys import shared_keys
from gateways.protocols.tls import tls_context
from gateways.sinks import CONFLUENT, KAFKA, PLATFORM_SINKS, PLATFORMS, SINKS
from gateways.sinks.kinds import ABILITIES, LINGER_MS, Java
from schemas.config import Strict, read_config
from schemas.errors import Refusal
from schemas.formats import FORMATS

# Alone, all of the fleet's messages wait for this gateway: long enough for a person to start it again.
ALONE_S: Final = 3_600
# In a group, what the broker has put aside for a member that is gone waits for it alone: time for a supervisor to start
# it again, and then the others get the whole fleet.
SHARED_S: Final = 300


class Faults(Strict):
    """Faults on purpose, for tests alone: a run that sets them says so in its manifest.

    Attributes:
        drop: (vehicle id, sequence) pairs that are taken, logged, acknowledged and never sent to Kafka.
        mislabel: pairs that reach Kafka with a format no twin knows, and so no twin.
    """

    drop: tuple[tuple[str, int], ...] = ()
    mislabel: tuple[tuple[str, int], ...] = ()


class GatewayConfig(Strict):
    """One gateway process.

    Attributes:
        bootstrap: the platform's address; of Pulsar a URL.
        platform: a name of PLATFORMS.
        kafka_login: file by which Kafka's clients log in over TLS; "" goes there in the clear.
        kafka_client: a name of SINKS.
        java: what a client of Java runs on; others need none.
        linger_ms: how long a record waits for others of its partition to go with.
        kafka_producer: settings of librdkafka for its producer, beside the gateway's own.
        address: scheme of the vehicles' addresses (gateways/protocols/addresses.py); "" is ours.
        exchange: to which vehicles publish (AMQP); "" is ours.
        virtual_host: of the broker (AMQP).
        host, port: the broker, or what to listen on (CoAP; port 0 asks).
        namespace: a name under /run/netns, or a path, to stand in towards the vehicles; None stays.
        kafka_inside: Kafka is reached from that namespace too, and not from where the gateway was started.
        receive_max: messages held at most, taken and not yet in Kafka.
        held_bytes_max: the same in bytes of payload.
        session_expiry_s: how long the broker keeps the session of a gateway that is gone; None: ALONE_S, or SHARED_S for
            a member of a group, whose share the others do not get as long.
        early_ack: acknowledge before Kafka has the record; the careless mode, never the default.
        batching: batches of the gateway's own; None leaves them to librdkafka.
        receive_log: where to write the receive log; None writes none.
        in_flight_log: where to note what Kafka has not answered at the end; None notes nothing.
        confirmed_log: where to note what the platform has confirmed; None notes nothing.
        metrics_port: Prometheus page on 127.0.0.1; 0 asks for a port, None opens none.
    """

    bootstrap: str
    platform: str = KAFKA
    kafka_login: str = ""
    kafka_client: str = CONFLUENT
    java: Java | None = None
    linger_ms: Annotated[int, Field(ge=0, le=60_000)] = LINGER_MS
    kafka_producer: dict[str, str] = Field(default_factory=dict)
    host: str
    port: Annotated[int, Field(ge=0, le=65_535)]
    mode: str
    format: str = "protobuf"
    topics_prefix: str = ""
    address: str = ""
    exchange: str = ""
    virtual_host: str = "/"
    namespace: str | None = None
    kafka_inside: bool = False
    tls: Tls | None = None
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    keys: SharedKeys | None = None
    name: str = "gateway"
    shared: bool = False
    group: str = "ivsim"
    receive_max: Annotated[int, Field(ge=1, le=65_535)] = 1000
    held_bytes_max: Annotated[int, Field(ge=1)] = 67_108_864
    keepalive_s: Annotated[int, Field(ge=1, le=65_535)] = 60
    session_expiry_s: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    max_age_s: Annotated[int, Field(ge=0)] = 1
    early_ack: bool = False
    batching: Batching | None = None
    receive_log: str | None = None
    in_flight_log: str | None = None
    confirmed_log: str | None = None
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = 0
    stop_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    faults: Faults = Faults()

    def endpoint(self) -> Endpoint:
        return Endpoint(
            self.host, self.port, self.tls, self.username, self.password, self.keys, self.virtual_host
        )

    def intake_settings(self) -> IntakeSettings:
        return IntakeSettings(
            name=self.name,
            receive_max=self.receive_max,
            shared=self.shared,
            group=self.group,
            keepalive_s=self.keepalive_s,
            session_expiry_s=self._session_expiry_s(),
            max_age_s=self.max_age_s,
            format=self.format,
            address=self.address,
            exchange=self.exchange,
        )

    def _session_expiry_s(self) -> int:
        if self.session_expiry_s is not None:
            return self.session_expiry_s
        return SHARED_S if self.shared else ALONE_S


def read_gateway_config(path: Path) -> GatewayConfig:
    """Return the checked configuration; Refusal names the file, the key and what is wrong with it."""
    config = read_config(path, GatewayConfig)
    if config.format not in FORMATS:
        raise Refusal(f"{path}: format {config.format!r}: allowed {', '.join(FORMATS)}")
    _check_client(path, config)
    _check_batching(path, config)
    try:
        if config.tls is not None:
            tls_context(config.tls)
        if config.keys is not None:
            shared_keys(config.keys.file)
        SINKS[config.kafka_client].check_login(config.kafka_login)
    except Refusal as error:
        raise Refusal(f"{path}: {error}") from error
    return config


def _check_platform(path: Path, config: GatewayConfig) -> None:
    if config.platform not in PLATFORM_SINKS:
        raise Refusal(f"{path}: platform {config.platform!r}: allowed {', '.join(PLATFORMS)}")
    for key in ("kafka_login", *ABILITIES):
        if getattr(config, key):
            raise Refusal(f"{path}: {key}: needs platform {KAFKA}; it is {config.platform}")
    if FORMATS[config.format].sequence_modulus is not None:
        raise Refusal(f"{path}: format {config.format}: its sequences wrap, which needs platform {KAFKA}")
    if (lack := PLATFORM_SINKS[config.platform].lack()) is not None:
        raise Refusal(f"{path}: platform {config.platform}: {lack}")


def _check_client(path: Path, config: GatewayConfig) -> None:
    if config.platform != KAFKA:
        _check_platform(path, config)
        return
    if config.kafka_client not in SINKS:
        raise Refusal(f"{path}: kafka_client {config.kafka_client!r}: allowed {', '.join(SINKS)}")
    kind = SINKS[config.kafka_client]
    for key, ability in ABILITIES.items():
        if getattr(config, key) and key not in kind.obeys:
            able = ", ".join(one.name for one in SINKS.values() if key in one.obeys)
            raise Refusal(
                f"{path}: {key}: needs kafka_client {able}, which alone {ability}; it is {kind.name}"
            )
    if kind.java and config.java is None:
        raise Refusal(f"{path}: java: kafka_client {kind.name} needs it")
    if (lack := kind.lack()) is not None:
        raise Refusal(f"{path}: kafka_client {kind.name}: {lack}")


def _check_batching(path: Path, config: GatewayConfig) -> None:
    batching = config.batching
    if batching is None:
        return
    if batching.messages > config.receive_max:
        raise Refusal(
            f"{path}: batching.messages {batching.messages}: no batch could fill, since a gateway holds"
            f" receive_max {config.receive_max} messages at most"
        )
    if batching.policy not in POLICIES:
        raise Refusal(f"{path}: batching.policy {batching.policy!r}: allowed {', '.join(POLICIES)}")
    if batching.chooses:
        from gateways.batch_control import controller_settings  # noqa: PLC0415 - slow, and few gateways choose

        try:
            controller_settings(batching, config.receive_max, 1)
        except ValueError as error:
            raise Refusal(f"{path}: batching.{error}") from None
