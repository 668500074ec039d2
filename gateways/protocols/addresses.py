"""What the addresses of all protocols have in common: a vehicle is named by its id, and the rest is fixed text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

# What may stand where the vehicle id stands: a foreign client's name, too, but no wildcard and no separator.
IDENTITY: Final = r"([A-Za-z0-9_-]{1,32})"

# In a scheme: the level of the vehicle's id, and any one level.
PLACE: Final = "{id}"
ANY: Final = "*"
_FIXED: Final = re.compile(r"[A-Za-z0-9_~.-]{1,64}")
_MAX_LEVELS: Final = 16


class Levels(NamedTuple):
    """How a protocol cuts its addresses into levels.

    Attributes:
        separator: between two.
        any: what a broker takes for any one level; "" where there is none to ask.
    """

    separator: str
    any: str


@dataclass(frozen=True)
class Addresses:
    """The addresses of vehicles.

    Attributes:
        filter: what a broker is asked for.
        pattern: its only group is the id.
        at: which level the id is, from 0.
    """

    filter: str
    pattern: re.Pattern[str]
    at: int

    def vehicle_of(self, address: str) -> str:
        """Return the vehicle id in an address; ValueError when the address is none of ours."""
        return vehicle_named(self.pattern, address)


def addresses(scheme: str, levels: Levels) -> Addresses:
    """Return what a scheme such as `fleet/*/{id}/status` says; ValueError for one that is none.

    Its filter matches the scheme's addresses alone, whatever stands where the id does: one that is no id belongs in the
    dead letters.
    """
    parts = scheme.split(levels.separator)
    fixed = [part for part in parts if part not in {PLACE, ANY}]
    if (
        parts.count(PLACE) != 1
        or len(parts) > _MAX_LEVELS
        or not all(_FIXED.fullmatch(part) for part in fixed)
        or not fixed
    ):
        example = levels.separator.join(("fleet", ANY, PLACE, "status"))
        raise ValueError(
            f"{scheme[:80]!r}: write up to {_MAX_LEVELS} levels of A-Z a-z 0-9 _ ~ . - with {levels.separator!r} between, one of"
            f" them {PLACE}, {ANY} for any one, such as {example}"
        )
    other = rf"[^{re.escape(levels.separator)}]+"
    pattern = [IDENTITY if part == PLACE else other if part == ANY else re.escape(part) for part in parts]
    wild = [levels.any if part in {PLACE, ANY} else part for part in parts]
    return Addresses(
        levels.separator.join(wild) if levels.any else "",
        re.compile(re.escape(levels.separator).join(pattern), re.DOTALL),
        parts.index(PLACE),
    )


def vehicle_named(pattern: re.Pattern[str], address: str) -> str:
    """Return the vehicle id in an address, the pattern's only group; ValueError when the address is none of ours."""
    match = pattern.fullmatch(address)
    if match is None:
        raise ValueError(f"{address[:80]!r} does not name a vehicle's status")
    return match[1]
