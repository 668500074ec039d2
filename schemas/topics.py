"""Names that every part must agree on: vehicles and gateways, their IP addresses, Kafka's topics and record headers."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

# 198.18.0.0/15 is the range reserved for benchmarks (RFC 2544, RFC 6890): vehicles have the lower half.
VEHICLES_NETWORK: Final = "198.18.0.0/16"
CLOUD_NETWORK: Final = "198.19.0.0/16"
CLOUD_ADDRESS: Final = "198.19.0.1"
# Of a run: each vehicle has an address of its own in that network.
MAX_VEHICLES: Final = 65_000
# Of a fleet that is generated and sent nowhere: what names can tell apart.
MAX_FLEET: Final = 9_999_999
# Gateways at the vehicles' end of a link have numbers there, and so addresses, that no vehicle has.
FIRST_GATEWAY: Final = 65_281
MAX_GATEWAYS: Final = 64
MAX_BROKERS: Final = 16

_SEVEN_DIGITS: Final = 1_000_000
_BASE: Final = int(IPv4Address("198.18.0.0"))
_KAFKA_BASE: Final = int(IPv4Address("198.19.1.0"))
_BROKERS_BASE: Final = int(IPv4Address("198.19.2.0"))

HEADERS: Final = ("format", "protocol", "mode", "epoch", "sequence", "sampled_at_ns", "received_at_ns")


def vehicle_id(number: int) -> str:
    """Return the 17 characters (a VIN's length, ISO 3779) that name vehicle `number` (1 to 9,999,999).

    Six digits stand behind the letter of the plant. A seventh takes that letter's place, so that no two are alike and all
    have the same length.
    """
    if not 1 <= number <= MAX_FLEET:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_FLEET}")
    return f"YV2RT40A8KB{number:06d}" if number < _SEVEN_DIGITS else f"YV2RT40A8K{number}"


def vehicle_address(number: int) -> str:
    """Return the vehicle's own IPv4 address, its number in the low 16 bits."""
    if not 1 <= number <= MAX_VEHICLES:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_VEHICLES}")
    return str(IPv4Address(_BASE + number))


def vehicle_of_address(address: str) -> str | None:
    """Return the id of the vehicle that has this IPv4 address, also one written in IPv6; None for one that no vehicle has."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return None
        found = found.ipv4_mapped
    number = int(found) - _BASE
    return vehicle_id(number) if 1 <= number <= MAX_VEHICLES else None


def broker_address(broker: int) -> str:
    """Return the IPv4 address behind the link of broker `broker` (0 to 15) of several."""
    if not 0 <= broker < MAX_BROKERS:
        raise ValueError(f"broker {broker}: allowed 0 to {MAX_BROKERS - 1}")
    return str(IPv4Address(_BROKERS_BASE + 1 + broker))


def gateway_id(gateway: int) -> str:
    """Return the name of a run's gateway; 0 is the first."""
    return f"gateway-{gateway}"


def gateway_number(gateway: int) -> int:
    """Return the number by which a link knows gateway `gateway` (0 to 63), where it stands at the vehicles' end."""
    if not 0 <= gateway < MAX_GATEWAYS:
        raise ValueError(f"gateway {gateway}: allowed 0 to {MAX_GATEWAYS - 1}")
    return FIRST_GATEWAY + gateway


def gateway_address(gateway: int) -> str:
    """Return the IPv4 address of a gateway that stands at the vehicles' end."""
    return str(IPv4Address(_BASE + gateway_number(gateway)))


def kafka_address(gateway: int) -> str:
    """Return the IPv4 address at the cloud's end at which a gateway of the vehicles' end finds Kafka."""
    return str(IPv4Address(_KAFKA_BASE + 1 + gateway_number(gateway) - FIRST_GATEWAY))


def end_id(number: int) -> str:
    """Return the name of who is at the vehicles' end of link `number`: a vehicle, or a gateway."""
    if FIRST_GATEWAY <= number < FIRST_GATEWAY + MAX_GATEWAYS:
        return gateway_id(number - FIRST_GATEWAY)
    if number > MAX_VEHICLES:  # such a vehicle has a name, and no link
        raise ValueError(f"link number {number}: allowed 1 to {MAX_VEHICLES}, and gateways")
    return vehicle_id(number)


def end_address(number: int) -> str:
    """Return the IPv4 address of who is at the vehicles' end of link `number`."""
    if FIRST_GATEWAY <= number < FIRST_GATEWAY + MAX_GATEWAYS:
        return gateway_address(number - FIRST_GATEWAY)
    return vehicle_address(number)


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
