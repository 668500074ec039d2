"""What the addresses of all protocols have in common: a vehicle is named by its id, and the rest is fixed text."""

from __future__ import annotations

import re
from typing import Final

# What may stand where the vehicle id stands: a foreign client's name, too, but no wildcard and no separator.
IDENTITY: Final = r"([A-Za-z0-9_-]{1,32})"


def vehicle_named(pattern: re.Pattern[str], address: str) -> str:
    """Return the vehicle id in an address, the pattern's only group; ValueError when the address is none of ours."""
    match = pattern.fullmatch(address)
    if match is None:
        raise ValueError(f"{address[:80]!r} does not name a vehicle's status")
    return match[1]
