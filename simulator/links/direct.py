"""The control: the same two namespaces joined by one veth pair, without any emulation."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from simulator.links import addressing, wiring
from simulator.links.base import DIRECT, Applied, Conditions, LinkCounts, check, wait_until


class DirectLink:
    """Vehicles' and cloud's namespaces on one wire: conditions are checked and then have no effect."""

    name = DIRECT
    vehicles_device = addressing.VEHICLES_SIDE.device

    def __init__(self, run: str, vehicles: int, first: int = 1) -> None:
        self.vehicles, self.first = vehicles, first
        self.vehicles_namespace = f"ivsim-{run}-v"
        self.cloud_namespace = f"ivsim-{run}-c"
        self.namespaces: tuple[str, ...] = (self.vehicles_namespace, self.cloud_namespace)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self) -> None:
        up, down = addressing.VEHICLES_SIDE, addressing.CLOUD_SIDE
        # Each side's router is the other side itself.
        up = dataclasses.replace(up, router_address="192.0.2.1", router_mac=down.mac)
        down = dataclasses.replace(down, address="192.0.2.1", router_address="192.0.2.2", router_mac=up.mac)
        wiring.make_namespace(self._stack, self.vehicles_namespace)
        wiring.make_namespace(self._stack, self.cloud_namespace)
        wiring.veth(
            (self.vehicles_namespace, up.device, up.mac), (self.cloud_namespace, down.device, down.mac)
        )
        wiring.address_side(self.vehicles_namespace, up)
        wiring.address_side(self.cloud_namespace, down)

    def update(self, conditions: Conditions) -> None:
        """Check the conditions and change nothing: this link is the control."""
        for vehicle, (up, down) in conditions.items():
            check(up, vehicle, "uplink")
            check(down, vehicle, "downlink")

    def prepare(self, conditions: Conditions, at_s: float, *, count: bool = False) -> Callable[[], Applied]:
        """Check the conditions; the call that is returned waits for its time and does nothing."""
        del count
        self.update(conditions)

        def apply() -> Applied:
            now_s = wait_until(at_s)
            return Applied(now_s, now_s, LinkCounts.none(), now_s)

        return apply

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_stack": None}

    @contextlib.contextmanager
    def attached(self) -> Iterator[Self]:
        """Use the link of another process; it takes nothing."""
        yield self

    def told(self) -> list[Any]:
        return []

    def resume(self, told: Sequence[Any] | None) -> None:
        """Go on as before: this link is told nothing."""

    def counters(self) -> LinkCounts:
        """Return nothing: no queue counts per vehicle on a plain wire."""
        return LinkCounts.none()

    def properties(self) -> dict[str, Any]:
        return {"name": self.name, "kernel": platform.release(), "vehicles": self.vehicles}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
