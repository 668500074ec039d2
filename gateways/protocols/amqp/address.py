"""The AMQP routing keys of vehicles, as a topic exchange reads them (AMQP 0-9-1, 3.1.3.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateways.protocols.addresses import Addresses, Levels, addresses

LEVELS: Final = Levels(".", "*")
# Wider than a vehicle's key: a mistyped one belongs in the dead letters.
BINDING_KEY: Final = "vehicles.#"
_KEYS: Final = replace(addresses("vehicles.{id}.status", LEVELS), filter=BINDING_KEY)


def amqp_routing_key(identity: str) -> str:
    """Return the routing key of the vehicle's messages."""
    return f"vehicles.{identity}.status"


def amqp_addresses(scheme: str) -> Addresses:
    """Return the routing keys of a scheme, ours for ""; ValueError for one that is none."""
    return addresses(scheme, LEVELS) if scheme else _KEYS
