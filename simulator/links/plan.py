"""Which class and leaf each vehicle has on the router's devices, and the messages that say so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from simulator.links import netlink as nl
from simulator.links.base import Condition, Direction

UNLIMITED_BYTES: Final = 1_250_000_000  # 10 Gbit/s
FRAME_BYTES: Final = 1514
LIMIT_MIN_PACKETS: Final = 1000


@dataclass(frozen=True)
class Change:
    """One message and whose it is."""

    vehicle: int
    direction: Direction
    message: bytes


def options(condition: Condition) -> nl.NetemOptions:
    """Return netem's parameters in the kernel's units."""
    rate = 0 if condition.rate_bps is None else max(1, round(condition.rate_bps / 8))
    return nl.NetemOptions(
        delay_ticks=round(condition.delay_ms * 1e6 / nl.TICK_NS),
        limit_packets=LIMIT_MIN_PACKETS,
        loss=round(condition.loss_ratio * 0xFFFFFFFF),
        rate_bytes=rate,
    )


@dataclass(frozen=True)
class Plan:
    """One direction of all vehicles: the device its packets leave by, and the key of its filter."""

    direction: Direction
    device: int
    vehicles: int

    def set_up(self) -> Iterator[bytes]:
        """Yield: HTB root, the filter, then class and leaf of every vehicle."""
        yield nl.htb_root(self.device)
        yield nl.flow_filter(self.device, 0 if self.direction == "uplink" else 1)
        for vehicle in range(1, self.vehicles + 1):
            yield nl.htb_class(self.device, vehicle + 1, UNLIMITED_BYTES, 15625, create=True)
            yield nl.netem(self.device, vehicle + 1, options(Condition()), create=True)

    def changes(self, conditions: Iterable[tuple[int, Condition]]) -> Iterator[Change]:
        for vehicle, condition in conditions:
            one = nl.netem(self.device, vehicle + 1, options(condition), create=False)
            yield Change(vehicle, self.direction, one)
