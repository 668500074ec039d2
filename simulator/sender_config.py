"""What a sender process is told; checked before anything is opened, never repaired."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gateways.protocols import protocol_and_mode
from gateways.protocols.base import BLOCK_SIZES, Endpoint, Mode, Protocol, SharedKeys, Tls, VehicleSettings
from schemas.config import Strict
from schemas.errors import Refusal
from schemas.topics import vehicle_address, vehicle_id
from simulator.outbox import Policy
from simulator.scenario import Scenario

CONNECT_WAIT_S = 30.0


def _block_size(value: int) -> int:
    if value not in BLOCK_SIZES:
        raise ValueError(f"allowed {', '.join(map(str, BLOCK_SIZES))} or null")
    return value


class SenderConfig(Strict):
    """One sender process.

    Attributes:
        host, port: the broker, or the gateway where it is the server itself.
        vehicles: the numbers of a shard; None for the whole fleet.
        tls: what encrypted connections trust; None connects without.
        certificates: directory with each vehicle's certificate and key, `<vehicle id>.pem`; None shows none.
        keys: what each vehicle shares with the gateway; None protects nothing.
        passwords: by vehicle id, which is then the user's name; None connects without.
        usernames: by vehicle id, where the user's name is another.
        bind_addresses: each vehicle binds its own 198.18.x.y (inside the vehicles' namespace).
        events_path: where to write the emission log.
        topology: `echo` puts a receiver beside each vehicle.
        outbox_limit: messages a vehicle keeps when it cannot send.
        connect_wait_s: how long to wait for all vehicles to be connected before `ready`.
        connect_rate_per_s: connections per second that the whole fleet begins; None begins all at once.
        drain_s: how long after the last message is due to wait for acknowledgements.
        coap_block_bytes: see gateways.protocols.base.VehicleSettings.
    """

    scenario: Scenario
    protocol: str
    mode: str
    host: str
    port: Annotated[int, Field(ge=1, le=65_535)]
    events_path: str
    vehicles: list[int] | None = None
    tls: Tls | None = None
    certificates: str | None = None
    keys: SharedKeys | None = None
    passwords: dict[str, str] | None = Field(default=None, repr=False)
    usernames: dict[str, str] = Field(default_factory=dict)
    bind_addresses: bool = False
    topology: Literal["gateway", "echo"] = "gateway"
    outbox_limit: Annotated[int, Field(ge=0)] = 1000
    outbox_policy: Policy = "drop_oldest"
    receive_max: Annotated[int, Field(ge=1, le=65_535)] = 20
    keepalive_s: Annotated[int, Field(ge=1, le=65_535)] = 60
    session_expiry_s: Annotated[int, Field(ge=0, lt=2**32)] = 3600
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    connect_wait_s: Annotated[float, Field(gt=0)] = CONNECT_WAIT_S
    connect_rate_per_s: Annotated[float, Field(gt=0)] | None = None
    reconnect_first_s: Annotated[float, Field(gt=0)] = 0.5
    reconnect_most_s: Annotated[float, Field(gt=0)] = 30.0
    drain_s: Annotated[float, Field(ge=0)] = 30.0
    client_prefix: str = ""
    coap_block_bytes: Annotated[int, AfterValidator(_block_size)] | None = 1024

    def numbers(self) -> list[int]:
        """Return the numbers of the vehicles this sender drives."""
        return list(range(1, self.scenario.vehicles + 1)) if self.vehicles is None else self.vehicles

    def rows(self) -> tuple[Protocol, Mode]:
        """Return the rows of the tables; Refusal lists what is allowed."""
        return protocol_and_mode(self.protocol, self.mode)

    def endpoint(self, vehicle: int) -> Endpoint:
        """Return the endpoint as this vehicle reaches it, with its own credentials."""
        identity = vehicle_id(vehicle)
        endpoint = Endpoint(self.host, self.port, self._tls(identity), keys=self.keys)
        if self.passwords is None:
            return endpoint
        if identity not in self.passwords:
            raise Refusal(f"passwords: none for vehicle {identity}")
        username = self.usernames.get(identity, identity)
        return dataclasses.replace(endpoint, username=username, password=self.passwords[identity])

    def _tls(self, identity: str) -> Tls | None:
        if self.tls is None or self.certificates is None:
            return self.tls
        own = str(Path(self.certificates) / f"{identity}.pem")
        return dataclasses.replace(self.tls, certificate_file=own, key_file=own)

    def settings(self, vehicle: int) -> VehicleSettings:
        return VehicleSettings(
            source_address=vehicle_address(vehicle) if self.bind_addresses else None,
            keepalive_s=self.keepalive_s,
            session_expiry_s=self.session_expiry_s,
            receive_max=self.receive_max,
            connect_timeout_s=self.connect_timeout_s,
            client_prefix=self.client_prefix,
            coap_block_bytes=self.coap_block_bytes,
        )
