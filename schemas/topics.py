"""Names that every part must agree on: vehicles, their addresses, topics and record headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

# 198.18.0.0/15 is the range reserved for benchmarks (RFC 2544, RFC 6890): vehicles have the lower half.
VEHICLES_NETWORK: Final = "198.18.0.0/16"
CLOUD_NETWORK: Final = "198.19.0.0/16"
CLOUD_ADDRESS: Final = "198.19.0.1"
MAX_VEHICLES: Final = 65_000

_BASE: Final = int(IPv4Address("198.18.0.0"))
_ID = re.compile(r"YV2RT40A8KB(\d{6})")
_SEGMENT: Final = r"([A-Za-z0-9_-]{1,32})"
_MQTT = re.compile(rf"vehicles/{_SEGMENT}/status")
_AMQP = re.compile(rf"vehicles\.{_SEGMENT}\.status")

HEADERS: Final = ("format", "protocol", "mode", "epoch", "sequence", "sampled_at_ns", "received_at_ns")


def vehicle_id(number: int) -> str:
    """Return the 17 characters (a VIN's length, ISO 3779) that name vehicle `number` (1 to 65,000)."""
    if not 1 <= number <= MAX_VEHICLES:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_VEHICLES}")
    return f"YV2RT40A8KB{number:06d}"


def vehicle_number(identity: str) -> int:
    """Return the number in a vehicle id; ValueError for a name that `vehicle_id` does not give."""
    match = _ID.fullmatch(identity)
    if match is None:
        raise ValueError(f"vehicle id {identity!r}: not of the form YV2RT40A8KB000001")
    return int(match[1])


def vehicle_address(number: int) -> str:
    """Return the vehicle's own IPv4 address, its number in the low 16 bits."""
    if not 1 <= number <= MAX_VEHICLES:
        raise ValueError(f"vehicle number {number}: allowed 1 to {MAX_VEHICLES}")
    return str(IPv4Address(_BASE + number))


def mqtt_topic(identity: str) -> str:
    """Return the MQTT topic to which the vehicle publishes."""
    return f"vehicles/{identity}/status"


def vehicle_of_mqtt_topic(topic: str) -> str:
    """Return the vehicle id in an MQTT topic; ValueError when the topic is none of ours."""
    return _identity(_MQTT, topic)


def amqp_routing_key(identity: str) -> str:
    """Return the AMQP routing key of the vehicle's messages."""
    return f"vehicles.{identity}.status"


def vehicle_of_amqp_routing_key(key: str) -> str:
    """Return the vehicle id in a routing key; ValueError when the key is none of ours."""
    return _identity(_AMQP, key)


def coap_path(identity: str) -> tuple[str, str, str]:
    """Return the Uri-Path segments (RFC 7252, 5.10.1) of the vehicle's resource."""
    return ("vehicles", identity, "status")


def vehicle_of_coap_path(segments: tuple[str, ...]) -> str:
    """Return the vehicle id in Uri-Path segments; ValueError when the path is none of ours."""
    return _identity(_MQTT, "/".join(segments))


def _identity(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} does not name a vehicle's status")
    return match[1]


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
