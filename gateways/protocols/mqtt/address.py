"""The MQTT topics of vehicles (MQTT 5, 4.7)."""

from __future__ import annotations

import re
from typing import Final

from gateways.protocols.addresses import IDENTITY, vehicle_named

# Wider than a vehicle's topic: a mistyped one belongs in the dead letters.
TOPIC_FILTER: Final = "vehicles/#"
_TOPIC: Final = re.compile(rf"vehicles/{IDENTITY}/status")


def mqtt_topic(identity: str) -> str:
    """Return the topic to which the vehicle publishes."""
    return f"vehicles/{identity}/status"


def vehicle_of_mqtt_topic(topic: str) -> str:
    """Return the vehicle id in a topic; ValueError when the topic is none of ours."""
    return vehicle_named(_TOPIC, topic)
