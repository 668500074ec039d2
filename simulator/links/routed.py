"""The link through a router, whatever kernel the router runs in: set-up, per-second change, counters."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from schemas.topics import MAX_VEHICLES, end_id
from simulator.links import addressing, counting, wiring
from simulator.links import netlink as nl
from simulator.links.base import DIRECTIONS, Applied, Conditions, Direction, LinkCounts, LinkError
from simulator.links.fleet_conditions import FleetConditions
from simulator.links.plan import Messages, Plan, shards_for
from simulator.links.queueing import Meters, Terms
from simulator.links.routers import Block, Router

BLOCK_MESSAGES = 400
COUNTS = Block(nl.sequenced([nl.dump(nl.GETQDISC, 0)], 1), 1)
MOST_CONDITIONS = 1 << 16  # that are remembered, so that they are checked and packed once
_Numbers = npt.NDArray[np.int64]


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

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_stack": None, "_lock": None, "_terms": None}

    @contextlib.contextmanager
    def attached(self) -> Iterator[Self]:
        """Use the link of another process, in a copy of it; see `base.Link.attached`."""
        self._lock, self._terms = threading.Lock(), Terms()
        self._forget()
        with contextlib.ExitStack() as stack:
            self._router.attach(stack)
            yield self

    def told(self) -> list[Meters]:
        return [plan.state for plan in self._plans]

    def resume(self, told: Sequence[Any] | None) -> None:
        """See `base.Link.resume`."""
        for index, plan in enumerate(self._plans):
            if told is None:
                plan.forget_all()
            else:
                plan.state = told[index]
        self._terms = Terms()
        self._forget()

    def _forget(self) -> None:
        for plan in self._plans:
            plan.forget()

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
        answer = self._router.prepare([Block(nl.sequenced(part, 1), len(part)) for part in parts])(0.0, None)
        for part, replies in zip(parts, answer.replies, strict=True):
            for reply in _refused(replies):
                step = nl.kind_of(part[reply.sequence - 1])
                raise LinkError(f"link {self.name}: {step}: {_words(reply)}")

    def update(self, conditions: Conditions) -> None:
        """Set both directions of each vehicle named; see `base.Link.update`."""
        self.prepare(conditions, time.monotonic())()

    def prepare(self, conditions: Conditions, at_s: float, *, count: bool = False) -> Callable[[], Applied]:
        """Return an update that the router has and that waits for its time; see `base.Link.prepare`."""
        fleet = FleetConditions.of(conditions)
        asked = self._numbers(fleet)
        changes = [
            plan.change(self._terms, fleet.vehicles, numbers, at_s)
            for plan, numbers in zip(self._plans, asked, strict=True)
        ]
        messages = [block for change in changes for block in change.messages]
        with self._lock:
            send = self._router.prepare([Block(some.packed, len(some.vehicles)) for some in messages])

        def apply() -> Applied:
            with self._lock:
                answer = send(at_s, COUNTS if count else None)
                for plan, change in zip(self._plans, changes, strict=True):
                    plan.apply(change)
            self._check_replies(messages, answer.replies)
            counts = counting.read(answer.dump, self._plans) if count else LinkCounts.none()
            return Applied(answer.began_s, answer.ended_s, counts, answer.dumped_s)

        return apply

    def _numbers(self, fleet: FleetConditions) -> tuple[_Numbers, _Numbers]:
        """Return the number of every vehicle's uplink and downlink conditions; Refusal for one that cannot be had."""
        for vehicle in (fleet.vehicles.min(initial=self.first), fleet.vehicles.max(initial=self.first)):
            last = self.first + self.vehicles - 1
            if not self.first <= vehicle <= last:
                raise Refusal(f"vehicle {vehicle}: this link has vehicles {self.first} to {last}")
        if len(self._terms) > MOST_CONDITIONS:
            self._terms = Terms()
            self._forget()
        places, rows, inverse = fleet.used
        used = list(zip(places.tolist(), fleet.vehicles[rows].tolist(), strict=True))
        up, down = (
            np.array([self._terms.number(fleet.pairs[k][way], whose, name) for k, whose in used], np.int64)
            for way, name in enumerate(DIRECTIONS)
        )
        return up[inverse], down[inverse]

    def _check_replies(self, messages: Sequence[Messages], answers: Sequence[bytes]) -> None:
        failures = [
            f"{end_id(int(some.vehicles[reply.sequence - 1]))} {some.direction}: {_words(reply)}"
            for some, replies in zip(messages, answers, strict=True)
            for reply in _refused(replies)
        ]
        if failures:
            raise LinkError(f"link {self.name}: {failures[0]} ({len(failures)} changes refused)")

    def counters(self) -> LinkCounts:
        """Return the kernel's counts for every vehicle and direction."""
        with self._lock:
            replies = self._router.dump(*COUNTS)
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
