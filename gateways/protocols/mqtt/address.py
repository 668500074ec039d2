"""The MQTT topics of vehicles (MQTT 5, 4.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateways.protocols.addresses import Addresses, Levels, addresses

LEVELS: Final = Levels("/", "+")
# Wider than a vehicle's topic: a mistyped one belongs in the dead letters.
TOPIC_FILTER: Final = "vehicles/#"
_TOPICS: Final = replace(addresses("vehicles/{id}/status", LEVELS), filter=TOPIC_FILTER)


def mqtt_topic(identity: str) -> str:
    """Return the topic to which the vehicle publishes."""
    return f"vehicles/{identity}/status"


def mqtt_addresses(scheme: str) -> Addresses:
    """Return the topics of a scheme, ours for ""; ValueError for one that is none."""
    return addresses(scheme, LEVELS) if scheme else _TOPICS
