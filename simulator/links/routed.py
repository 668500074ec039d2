"""The link through a router, whatever kernel the router runs in: set-up, per-second change, counters."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

from schemas.errors import Refusal
from schemas.topics import MAX_VEHICLES, end_id
from simulator.links import addressing, counting, wiring
from simulator.links import netlink as nl
from simulator.links.base import Conditions, Direction, LinkCounts, LinkError, check
from simulator.links.plan import Change, Plan, shards_for
from simulator.links.queueing import Meter

BLOCK_MESSAGES = 400
_Block = tuple[list[Change], bytes]
# What an update tells each vehicle, uplink and downlink; in force once it is sent.
_Told = tuple[dict[int, Meter], dict[int, Meter]]


class Router(Protocol):
    """A kernel that forwards between two devices and takes netlink blocks."""

    def open(self, stack: contextlib.ExitStack, run: str, vehicles: int) -> tuple[str, str]:
        """Make the router joined to both namespaces; return its devices towards vehicles and cloud."""

    def exchange(self, blocks: Iterable[tuple[bytes, int]]) -> list[bytes]:
        """Send blocks with their last sequence numbers; return each one's replies up to that number's."""

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
        for start in range(0, len(messages), BLOCK_MESSAGES):
            block = messages[start : start + BLOCK_MESSAGES]
            replies = self._router.exchange([(nl.sequenced(block, 1), len(block))])
            for reply in nl.errors(replies[0]):
                if reply.errno:
                    step = nl.kind_of(block[reply.sequence - 1])
                    raise LinkError(f"link {self.name}: {step}: {_words(reply)}")

    def update(self, conditions: Conditions) -> None:
        """Set both directions of each vehicle named; see `base.Link.update`."""
        self._check(conditions)
        told: _Told = ({}, {})
        self._send(self._blocks(conditions, time.monotonic(), told), told)

    def prepare(self, conditions: Conditions, at_s: float) -> Callable[[], None]:
        """Return an update as messages that only have to be sent; see `base.Link.prepare`."""
        self._check(conditions)
        told: _Told = ({}, {})
        blocks = list(self._blocks(conditions, at_s, told))
        return lambda: self._send(blocks, told)

    def _check(self, conditions: Conditions) -> None:
        for vehicle, (up, down) in conditions.items():
            last = self.first + self.vehicles - 1
            if not self.first <= vehicle <= last:
                raise Refusal(f"vehicle {vehicle}: this link has vehicles {self.first} to {last}")
            check(up, vehicle, "uplink")
            check(down, vehicle, "downlink")

    def _blocks(self, conditions: Conditions, at_s: float, told: _Told) -> Iterator[_Block]:
        changes = itertools.chain.from_iterable(
            plan.changes(((vehicle, pair[which]) for vehicle, pair in conditions.items()), at_s, told[which])
            for which, plan in enumerate(self._plans)
        )
        while block := list(itertools.islice(changes, BLOCK_MESSAGES)):
            yield block, nl.sequenced([change.message for change in block], 1)

    def _send(self, blocks: Iterable[_Block], told: _Told) -> None:
        sent: list[list[Change]] = []

        def asked() -> Iterator[tuple[bytes, int]]:
            for block, packed in blocks:
                sent.append(block)
                yield packed, len(block)

        with self._lock:
            answers = self._router.exchange(asked())
            for plan, meters in zip(self._plans, told, strict=True):
                plan.state.update(meters)
        failures = []
        for block, replies in zip(sent, answers, strict=True):
            for reply in nl.errors(replies):
                if reply.errno:
                    change = block[reply.sequence - 1]
                    failures.append(f"{end_id(change.vehicle)} {change.direction}: {_words(reply)}")
        if failures:
            raise LinkError(f"link {self.name}: {failures[0]} ({len(failures)} changes refused)")

    def counters(self) -> LinkCounts:
        """Return the kernel's counts for every vehicle and direction."""
        with self._lock:
            replies = self._router.exchange([(nl.sequenced([nl.dump(nl.GETQDISC, 0)], 1), 1)])
        return counting.read(replies[0], self._plans)

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


def _words(reply: nl.Reply) -> str:
    return f"{os.strerror(reply.errno)}{': ' + reply.reason if reply.reason else ''}"
