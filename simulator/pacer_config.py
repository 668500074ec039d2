"""What a pacer process is told; checked before anything is opened, never repaired."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import Field

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, Mode, Protocol, Tls, VehicleSettings
from schemas.errors import Refusal
from schemas.topics import vehicle_address, vehicle_id
from simulator.outbox import Policy
from simulator.scenario import Scenario, Strict


class TlsFiles(Strict):
    """PEM files; see gateways.protocols.base.Tls."""

    ca_file: str
    certificate_file: str | None = None
    key_file: str | None = None


class PacerConfig(Strict):
    """One pacer process.

    Attributes:
        host, port: the broker, or the gateway where it is the server itself.
        vehicles: the numbers of a shard; None for the whole fleet.
        passwords: by vehicle id, which is then the user's name; None connects without.
        bind_addresses: each vehicle binds its own 198.18.x.y (inside the vehicles' namespace).
        events_path: where to write the emission log.
        topology: `echo` puts a receiver beside each vehicle.
        outbox_limit: messages a vehicle keeps when it cannot send.
        connect_wait_s: how long to wait for all vehicles to be connected before `ready`.
        drain_s: how long after the last message is due to wait for acknowledgements.
    """

    scenario: Scenario
    protocol: str
    mode: str
    host: str
    port: Annotated[int, Field(ge=1, le=65_535)]
    events_path: str
    vehicles: list[int] | None = None
    tls: TlsFiles | None = None
    passwords: dict[str, str] | None = Field(default=None, repr=False)
    bind_addresses: bool = False
    topology: Literal["gateway", "echo"] = "gateway"
    outbox_limit: Annotated[int, Field(ge=0)] = 1000
    outbox_policy: Policy = "drop_oldest"
    receive_max: Annotated[int, Field(ge=1, le=65_535)] = 20
    keepalive_s: Annotated[int, Field(ge=1, le=65_535)] = 60
    session_expiry_s: Annotated[int, Field(ge=0, lt=2**32)] = 3600
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    connect_wait_s: Annotated[float, Field(gt=0)] = 30.0
    reconnect_first_s: Annotated[float, Field(gt=0)] = 0.5
    reconnect_most_s: Annotated[float, Field(gt=0)] = 30.0
    drain_s: Annotated[float, Field(ge=0)] = 30.0
    client_prefix: str = ""

    def numbers(self) -> list[int]:
        """Return the numbers of the vehicles this pacer drives."""
        return list(range(1, self.scenario.vehicles + 1)) if self.vehicles is None else self.vehicles

    def rows(self) -> tuple[Protocol, Mode]:
        """Return the rows of the tables; Refusal lists what is allowed."""
        if self.protocol not in PROTOCOLS:
            raise Refusal(f"protocol {self.protocol!r}: allowed {', '.join(PROTOCOLS)}")
        protocol = PROTOCOLS[self.protocol]
        if self.mode not in protocol.modes:
            raise Refusal(f"mode {self.mode!r}: allowed with {self.protocol} {', '.join(protocol.modes)}")
        return protocol, protocol.modes[self.mode]

    def endpoint(self, vehicle: int) -> Endpoint:
        """Return the endpoint as this vehicle reaches it, with its own credentials."""
        tls = None if self.tls is None else Tls(**self.tls.model_dump())
        endpoint = Endpoint(self.host, self.port, tls)
        if self.passwords is None:
            return endpoint
        identity = vehicle_id(vehicle)
        if identity not in self.passwords:
            raise Refusal(f"passwords: none for vehicle {identity}")
        return dataclasses.replace(endpoint, username=identity, password=self.passwords[identity])

    def settings(self, vehicle: int) -> VehicleSettings:
        return VehicleSettings(
            source_address=vehicle_address(vehicle) if self.bind_addresses else None,
            keepalive_s=self.keepalive_s,
            session_expiry_s=self.session_expiry_s,
            receive_max=self.receive_max,
            connect_timeout_s=self.connect_timeout_s,
            client_prefix=self.client_prefix,
        )
