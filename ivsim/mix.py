"""A fleet that speaks more than one protocol: how a mix is written, and which vehicles speak what.

A mix is written `mqtt qos1=70,coap con=20,amqp manual=10`: protocol, mode (without one, the protocol's own) and the share
of the vehicles in percent. Each protocol stands once: its gateways take in what the protocol's vehicles send, and a
message says its protocol and not its mode.

Vehicles are dealt out one by one, each to the part that is furthest below its share (the largest deficit; see Tijdeman,
"The chairman assignment problem", Discrete Mathematics 32, 1980, for what that is about). So the first n vehicles are
mixed like the whole, whatever n is: a stage in which only some of them send has the same mix, and traces, which follow
the vehicles' numbers, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Mode, Protocol
from ivsim.share import share_of

WHOLE_PERCENT: Final = 100
_SHORT: Final = 4  # modes as long as this are in the example: it stands in a narrow column of the help
EXAMPLE: Final = ",".join(
    f"{protocol.name}{f' {protocol.default_mode}' if len(protocol.default_mode) <= _SHORT else ''}={percent}"
    for protocol, percent in zip(PROTOCOLS.values(), (70, 20, 10), strict=False)
)
_SHARE: Final = re.compile(r"\s*(?P<protocol>\S+?)(?:\s+(?P<mode>\S+?))?\s*=\s*(?P<percent>[0-9]{1,3})\s*")


@dataclass(frozen=True)
class FleetPart:
    """The vehicles of a fleet that speak one protocol in one mode.

    Attributes:
        percent: of the fleet that was asked for.
        vehicles: their numbers, ascending.
    """

    protocol: Protocol
    mode: Mode
    percent: int
    vehicles: tuple[int, ...]

    @property
    def words(self) -> str:
        """Return it as a mix names it, without the share."""
        return f"{self.protocol.name} {self.mode.name}"

    @property
    def peer(self) -> str:
        """Return who answers a vehicle: its broker, and without one the gateway itself."""
        return "gateway" if self.protocol.broker is None else "broker"


def checked_mix(text: str) -> str:
    """Return a mix in its one spelling; ValueError says what it has to be."""
    shares = _shares(text)
    names = [protocol.name for protocol, _, _ in shares]
    if len(shares) < 2:
        raise ValueError(f"{text!r}: a mix has two protocols or more, such as {EXAMPLE!r}")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{text!r}: {name} stands twice; a protocol has one mode in a mix")
    total = sum(percent for _, _, percent in shares)
    if total != WHOLE_PERCENT or min(percent for _, _, percent in shares) < 1:
        raise ValueError(
            f"{text!r}: the shares are {total} % in all; they are whole, from 1 on, and add up to 100 %"
        )
    return ",".join(f"{protocol.name} {mode.name}={percent}" for protocol, mode, percent in shares)


@lru_cache(maxsize=16)
def fleet_parts(
    protocol: str, mode: str, mix: str | None, vehicles: int, share: str | None = None
) -> tuple[FleetPart, ...]:
    """Return the parts of a fleet in the order of the mix; without one, the whole fleet, or a share of it.

    Args:
        protocol: of every vehicle where there is no mix.
        mode: likewise.
        mix: one that `checked_mix` has returned.
        vehicles: how many there are, numbered from 1.
        share: K/N, of a fleet without a mix.
    """
    if mix is None:
        row = PROTOCOLS[protocol]
        own = range(1, vehicles + 1) if share is None else share_of(share).vehicles(vehicles)
        return (FleetPart(row, row.modes[mode], WHOLE_PERCENT, tuple(own)),)
    shares = _shares(mix)
    dealt = deal([percent for _, _, percent in shares], vehicles)
    return tuple(FleetPart(*share, tuple(own)) for share, own in zip(shares, dealt, strict=True))


def deal(percents: Sequence[int], vehicles: int) -> list[list[int]]:
    """Return the numbers of the vehicles of each part; of parts equally far below their share the first is served."""
    dealt: list[list[int]] = [[] for _ in percents]
    for number in range(1, vehicles + 1):
        deficits = [
            percent * number - WHOLE_PERCENT * len(own) for percent, own in zip(percents, dealt, strict=True)
        ]
        dealt[deficits.index(max(deficits))].append(number)
    return dealt


def _shares(text: str) -> list[tuple[Protocol, Mode, int]]:
    return [_share(word) for word in text.split(",")]


def _share(word: str) -> tuple[Protocol, Mode, int]:
    found = _SHARE.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r}: write PROTOCOL MODE=PERCENT, such as {EXAMPLE!r}")
    protocol = PROTOCOLS.get(found["protocol"])
    if protocol is None:
        raise ValueError(f"{word!r}: no protocol {found['protocol']}; allowed are {', '.join(PROTOCOLS)}")
    mode = protocol.modes.get(found["mode"] or protocol.default_mode)
    if mode is None:
        raise ValueError(f"{word!r}: {protocol.name} has {', '.join(protocol.modes)}")
    return protocol, mode, int(found["percent"])
