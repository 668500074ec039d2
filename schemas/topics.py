"""Names that every part must agree on: vehicles, their IP addresses, Kafka's topics and record headers."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

# 198.18.0.0/15 is the range reserved for benchmarks (RFC 2544, RFC 6890): vehicles have the lower half.
VEHICLES_NETWORK: Final = "198.18.0.0/16"
CLOUD_NETWORK: Final = "198.19.0.0/16"
CLOUD_ADDRESS: Final = "198.19.0.1"
MAX_VEHICLES: Final = 65_000

_BASE: Final = int(IPv4Address("198.18.0.0"))

HEADERS: Final = ("format", "protocol", "mode", "epoch", "sequence", "sampled_at_ns", "received_at_ns")


def vehicle_id(number: int) -> str:
    """Return the 17 characters (a VIN's length, ISO 3779) that name vehicle `number` (1 to 65,000)."""
    if not 1 <= number <= MAX_VEHICLES:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_VEHICLES}")
    return f"YV2RT40A8KB{number:06d}"


def vehicle_address(number: int) -> str:
    """Return the vehicle's own IPv4 address, its number in the low 16 bits."""
    if not 1 <= number <= MAX_VEHICLES:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_VEHICLES}")
    return str(IPv4Address(_BASE + number))


def vehicle_of_address(address: str) -> str | None:
    """Return the id of the vehicle that has this IPv4 address; None for an address that no vehicle has."""
    number = int(IPv4Address(address)) - _BASE
    return vehicle_id(number) if 1 <= number <= MAX_VEHICLES else None


@dataclass(frozen=True)
class KafkaTopics:
    """The topics of one run; a prefix keeps runs on a shared broker apart."""

    prefix: str = ""

    @property
    def status(self) -> str:
        return f"{self.prefix}vehicle.status"

    @property
    def state(self) -> str:
        return f"{self.prefix}twin.state"

    @property
    def dead_letter(self) -> str:
        return f"{self.prefix}vehicle.dead-letter"

    @property
    def metrics(self) -> str:
        return f"{self.prefix}run.metrics"

    @property
    def emissions(self) -> str:
        return f"{self.prefix}run.emissions"

    @property
    def link(self) -> str:
        return f"{self.prefix}run.link"

    def all(self) -> tuple[str, ...]:
        """Return every topic of the run, in the order in which they are made."""
        return (self.status, self.state, self.dead_letter, self.metrics, self.emissions, self.link)
