"""The URI paths of vehicles' resources (RFC 7252, 5.10.1)."""

from __future__ import annotations

import re
from typing import Final

from gateways.protocols.addresses import IDENTITY, vehicle_named

_PATH: Final = re.compile(rf"vehicles/{IDENTITY}/status")


def coap_path(identity: str) -> tuple[str, str, str]:
    """Return the Uri-Path segments of the vehicle's resource."""
    return ("vehicles", identity, "status")


def vehicle_of_coap_path(segments: tuple[str, ...]) -> str:
    """Return the vehicle id in Uri-Path segments; ValueError when the path is none of ours."""
    return vehicle_named(_PATH, "/".join(segments))
