"""What a gateway process is told; checked before anything is opened, never repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings, Mode, Protocol, Tls
from gateways.protocols.tls import tls_context
from schemas.config import read_config
from schemas.errors import Refusal
from schemas.formats import FORMATS


class Strict(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsFiles(Strict):
    """PEM files; see gateways.protocols.base.Tls."""

    ca_file: str
    certificate_file: str | None = None
    key_file: str | None = None


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
        bootstrap: Kafka's address.
        host, port: the broker, or what to listen on (CoAP; port 0 asks).
        namespace: a name under /run/netns, or a path, to stand in towards the vehicles; None stays.
        receive_max: messages held at most, taken and not yet in Kafka.
        held_bytes_max: the same in bytes of payload.
        early_ack: acknowledge before Kafka has the record; the careless mode, never the default.
        receive_log: where to write the receive log; None writes none.
        metrics_port: Prometheus page on 127.0.0.1; 0 asks for a port, None opens none.
    """

    bootstrap: str
    host: str
    port: Annotated[int, Field(ge=0, le=65_535)]
    mode: str
    format: str = "protobuf"
    topics_prefix: str = ""
    namespace: str | None = None
    tls: TlsFiles | None = None
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    name: str = "gateway"
    shared: bool = False
    group: str = "ivsim"
    receive_max: Annotated[int, Field(ge=1, le=65_535)] = 1000
    held_bytes_max: Annotated[int, Field(ge=1)] = 67_108_864
    keepalive_s: Annotated[int, Field(ge=1, le=65_535)] = 60
    session_expiry_s: Annotated[int, Field(ge=0, lt=2**32)] = 3600
    max_age_s: Annotated[int, Field(ge=0)] = 1
    early_ack: bool = False
    receive_log: str | None = None
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = 0
    stop_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    faults: Faults = Faults()

    def endpoint(self) -> Endpoint:
        tls = None if self.tls is None else Tls(**self.tls.model_dump())
        return Endpoint(self.host, self.port, tls, self.username, self.password)

    def intake_settings(self) -> IntakeSettings:
        return IntakeSettings(
            name=self.name,
            receive_max=self.receive_max,
            shared=self.shared,
            group=self.group,
            keepalive_s=self.keepalive_s,
            session_expiry_s=self.session_expiry_s,
            max_age_s=self.max_age_s,
        )


def read_gateway_config(path: Path) -> GatewayConfig:
    """Return the checked configuration; Refusal names the file, the key and what is wrong with it."""
    config = read_config(path, GatewayConfig)
    if config.format not in FORMATS:
        raise Refusal(f"{path}: format {config.format!r}: allowed {', '.join(FORMATS)}")
    tls = config.endpoint().tls
    if tls is not None:
        try:
            tls_context(tls)
        except Refusal as error:
            raise Refusal(f"{path}: {error}") from error
    return config


def protocol_and_mode(name: str, mode: str) -> tuple[Protocol, Mode]:
    """Return the rows of the tables; Refusal lists what is allowed."""
    if name not in PROTOCOLS:
        raise Refusal(f"protocol {name!r}: allowed {', '.join(PROTOCOLS)}")
    protocol = PROTOCOLS[name]
    if mode not in protocol.modes:
        raise Refusal(f"mode {mode!r}: allowed with {name} {', '.join(protocol.modes)}")
    return protocol, protocol.modes[mode]
