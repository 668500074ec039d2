"""The AMQP routing keys of vehicles, as a topic exchange reads them (AMQP 0-9-1, 3.1.3.3)."""

from __future__ import annotations

import re
from typing import Final

from gateways.protocols.addresses import IDENTITY, vehicle_named

# Wider than a vehicle's key: a mistyped one belongs in the dead letters.
BINDING_KEY: Final = "vehicles.#"
_ROUTING_KEY: Final = re.compile(rf"vehicles\.{IDENTITY}\.status")


def amqp_routing_key(identity: str) -> str:
    """Return the routing key of the vehicle's messages."""
    return f"vehicles.{identity}.status"


def vehicle_of_amqp_routing_key(key: str) -> str:
    """Return the vehicle id in a routing key; ValueError when the key is none of ours."""
    return vehicle_named(_ROUTING_KEY, key)
