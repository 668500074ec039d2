"""The link through a router, whatever kernel the router runs in: set-up, per-second change, counters."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from schemas.topics import MAX_VEHICLES, end_id
from simulator.links import addressing, counting, wiring
from simulator.links import netlink as nl
from simulator.links.base import DIRECTIONS, Applied, Conditions, Direction, LinkCounts, LinkError
from simulator.links.fleet_conditions import FleetConditions
from simulator.links.plan import Block, Plan, shards_for
from simulator.links.queueing import Terms

BLOCK_MESSAGES = 400
MOST_CONDITIONS = 1 << 16  # that are remembered, so that they are checked and packed once
_Numbers = npt.NDArray[np.int64]


class Router(Protocol):
    """A kernel that forwards between two devices and takes netlink blocks."""

    def open(self, stack: contextlib.ExitStack, run: str, vehicles: int) -> tuple[str, str]:
        """Make the router joined to both namespaces; return its devices towards vehicles and cloud."""

    def dump(self, block: bytes, last: int) -> bytes:
        """Send a block whose last sequence number is `last`; return the replies up to that number's."""

    def prepare(self, blocks: Sequence[tuple[bytes, int]]) -> Callable[[float], Applied]:
        """Take blocks with their last sequence numbers; return what hands them to the kernel at an instant of time.monotonic.

        At once when that has passed. Only the last of what was prepared can be sent.
        """

    def index(self, device: str) -> int:
        """Return a device's interface index."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, value: str) -> None: ...

    def properties(self) -> dict[str, Any]: ...


class RoutedLink:
    """Vehicles' namespace - router - cloud's namespace, a class and a netem leaf for each vehicle."""

    vehicles_device = addressing.VEHICLES_SIDE.device

    def __init__(self, name: str, run: str, vehicles: int, router: Router, first: int = 1) -> None:
        if not 1 <= vehicles <= MAX_VEHICLES:
            raise Refusal(f"link {name}: {vehicles} vehicles: allowed 1 to {MAX_VEHICLES}")
        self.name = name
        self.vehicles, self.first = vehicles, first
        self.vehicles_namespace = f"ivsim-{run}-v"
        self.cloud_namespace = f"ivsim-{run}-c"
        self.namespaces: tuple[str, ...] = (self.vehicles_namespace, self.cloud_namespace, f"ivsim-{run}-r")
        self._run = run
        self._router = router
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._terms = Terms()

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self) -> None:
        wiring.make_namespace(self._stack, self.vehicles_namespace)
        wiring.make_namespace(self._stack, self.cloud_namespace)
        devices = self._router.open(self._stack, self._run, self.vehicles)
        wiring.address_side(self.vehicles_namespace, addressing.VEHICLES_SIDE)
        wiring.address_side(self.cloud_namespace, addressing.CLOUD_SIDE)
        self._check_tick()
        near, far = (self._router.index(device) for device in devices)
        # First addresses and neighbours, then forwarding: the router never asks who has an address.
        self._apply(addressing.router_side(near, addressing.VEHICLES_SIDE))
        self._apply(addressing.router_side(far, addressing.CLOUD_SIDE))
        self._apply([nl.clsact(near), nl.clsact(far)])
        self._plans = (self._plan("uplink", near, far), self._plan("downlink", far, near))
        for plan in self._plans:
            self._apply(list(plan.set_up()))
        self._router.write("/proc/sys/net/ipv4/ip_forward", "1")

    def _plan(self, direction: Direction, entry: int, leave: int) -> Plan:
        shards = shards_for(self.vehicles)
        meters = self._devices([f"{direction[0]}q{shard}" for shard in range(shards)])
        lines = [leave]
        if shards > 1:
            lines = self._devices([f"{direction[0]}d{shard}" for shard in range(shards)])
        return Plan(direction, self.vehicles, entry, leave, meters, lines, self.first)

    def _devices(self, names: list[str]) -> list[int]:
        self._apply([addressing.new_device(name, "ifb") for name in names])
        return [self._router.index(name) for name in names]

    def _check_tick(self) -> None:
        words = [int(word, 16) for word in self._router.read("/proc/net/psched").split()]
        # us2tick / tick2us per 1e6: the kernel's own conversion (iproute2 tc_core.c).
        if words[1] * 1e6 / words[2] != nl.TICK_NS:
            raise LinkError(f"link {self.name}: the kernel's tick is {words[1]} ns, not {nl.TICK_NS}")

    def _apply(self, messages: list[bytes]) -> None:
        parts = [messages[at : at + BLOCK_MESSAGES] for at in range(0, len(messages), BLOCK_MESSAGES)]
        applied = self._router.prepare([(nl.sequenced(part, 1), len(part)) for part in parts])(0.0)
        for part, replies in zip(parts, applied.replies, strict=True):
            for reply in _refused(replies):
                step = nl.kind_of(part[reply.sequence - 1])
                raise LinkError(f"link {self.name}: {step}: {_words(reply)}")

    def update(self, conditions: Conditions) -> None:
        """Set both directions of each vehicle named; see `base.Link.update`."""
        self.prepare(conditions, time.monotonic())()

    def prepare(self, conditions: Conditions, at_s: float) -> Callable[[], Applied]:
        """Return an update that the router has and that waits for its time; see `base.Link.prepare`."""
        fleet = FleetConditions.of(conditions)
        asked = self._numbers(fleet)
        changes = [
            plan.change(self._terms, fleet.vehicles, numbers, at_s)
            for plan, numbers in zip(self._plans, asked, strict=True)
        ]
        blocks = [block for change in changes for block in change.blocks]
        with self._lock:
            send = self._router.prepare([(block.packed, len(block.vehicles)) for block in blocks])

        def apply() -> Applied:
            with self._lock:
                applied = send(at_s)
                for plan, change in zip(self._plans, changes, strict=True):
                    plan.apply(change)
            self._check_replies(blocks, applied.replies)
            return applied

        return apply

    def _numbers(self, fleet: FleetConditions) -> tuple[_Numbers, _Numbers]:
        """Return the number of every vehicle's uplink and downlink conditions; Refusal for one that cannot be had."""
        for vehicle in (fleet.vehicles.min(initial=self.first), fleet.vehicles.max(initial=self.first)):
            last = self.first + self.vehicles - 1
            if not self.first <= vehicle <= last:
                raise Refusal(f"vehicle {vehicle}: this link has vehicles {self.first} to {last}")
        if len(self._terms) > MOST_CONDITIONS:
            self._terms = Terms()
            for plan in self._plans:
                plan.forget()
        places, rows, inverse = fleet.used
        used = list(zip(places.tolist(), fleet.vehicles[rows].tolist(), strict=True))
        up, down = (
            np.array([self._terms.number(fleet.pairs[k][way], whose, name) for k, whose in used], np.int64)
            for way, name in enumerate(DIRECTIONS)
        )
        return up[inverse], down[inverse]

    def _check_replies(self, blocks: Sequence[Block], answers: Sequence[bytes]) -> None:
        failures = [
            f"{end_id(int(block.vehicles[reply.sequence - 1]))} {block.direction}: {_words(reply)}"
            for block, replies in zip(blocks, answers, strict=True)
            for reply in _refused(replies)
        ]
        if failures:
            raise LinkError(f"link {self.name}: {failures[0]} ({len(failures)} changes refused)")

    def counters(self) -> LinkCounts:
        """Return the kernel's counts for every vehicle and direction."""
        with self._lock:
            replies = self._router.dump(nl.sequenced([nl.dump(nl.GETQDISC, 0)], 1), 1)
        return counting.read(replies, self._plans)

    def properties(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tick_ns": nl.TICK_NS,
            "vehicles": self.vehicles,
        } | self._router.properties()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _refused(replies: bytes) -> Iterator[nl.Reply]:
    return (reply for reply in nl.errors(replies) if reply.errno)


def _words(reply: nl.Reply) -> str:
    return f"{os.strerror(reply.errno)}{': ' + reply.reason if reply.reason else ''}"
