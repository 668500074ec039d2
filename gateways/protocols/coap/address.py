"""The URI paths of vehicles' resources (RFC 7252, 5.10.1)."""

from __future__ import annotations

from typing import Final

from gateways.protocols.addresses import Addresses, Levels, addresses

LEVELS: Final = Levels("/", "")
_PATHS: Final = addresses("vehicles/{id}/status", LEVELS)


def coap_path(identity: str) -> tuple[str, str, str]:
    """Return the Uri-Path segments of the vehicle's resource."""
    return ("vehicles", identity, "status")


def coap_addresses(scheme: str) -> Addresses:
    """Return the paths of a scheme, ours for ""; ValueError for one that is none."""
    return addresses(scheme, LEVELS) if scheme else _PATHS
