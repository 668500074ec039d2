"""Which devices, classes and leaves the router has for each vehicle, and the messages that say so.

Each direction of each vehicle needs a queue with a rate, and behind it a delay with loss. One netem cannot do both: it
fixes the time at which a packet leaves when the packet comes, so that a second at a low rate slows the seconds after it
(docs/decisions/link-rate.md). Hence two stages. In the first, the meter, an HTB class holds the rate and a `plug`
leaf the queue, which can be held and let go; in the second, the line, a netem leaf delays, loses and reorders.

HTB wants a device with a class for each vehicle, but its work grows with the classes of a device. So vehicles are
spread over devices (ifb), 128 on each, by the low bits of their address, which a u32 filter reads and redirects. Within
a device a flow filter finds the class by the address itself, without a rule for each vehicle.

netem forgets at each change in which state its bursts of losses were, and begins in the good one: of links that change
each second it would lose too little. So bursts have a netem of their own in front of the delay, which is told nothing
while they stay the same.

A message carries all parameters of its qdisc: netem keeps the rate of a change that names none and forgets its loss. A
meter or a line that would be told the same again is told nothing. An update of 1,000 vehicles is thus 4,000 messages at
most, packed here byte by byte and handed to the router's kernel in blocks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.topics import VEHICLES_NETWORK
from simulator.links import netlink as nl
from simulator.links import queueing
from simulator.links.base import Condition, Direction
from simulator.links.queueing import Meters, Terms

SHARD_VEHICLES: Final = 128
BLOCK_VEHICLES: Final = 200
MAX_SHARDS: Final = 512
VEHICLES_BASE: Final = int(IPv4Network(VEHICLES_NETWORK).network_address)
STRAY_CLASS: Final = 0xFFFE  # what no vehicle sends ends here, and is lost


def shards_for(vehicles: int) -> int:
    """Return how many devices carry a fleet: a power of two, at most 128 vehicles on each.

    The kernel finds a qdisc by its handle in 16 chains per device, and HTB asks every waiting leaf in turn.
    Guest's processor time for one update of 5,000 vehicles: 410 ms at 625 on a device, 170 at 157, 90 at 79.
    """
    count = 1
    while count * SHARD_VEHICLES < vehicles and count < MAX_SHARDS:
        count *= 2
    return count


class Messages(NamedTuple):
    """Messages that are handed to the kernel together.

    Attributes:
        packed: their bytes, numbered from 1; the last one asks for an acknowledgement.
        vehicles: of each message whose it is.
    """

    packed: bytes
    vehicles: npt.NDArray[np.int64]
    direction: Direction


class Change(NamedTuple):
    """An update of some vehicles, and what they are told by it, which belongs into `state` once it is sent."""

    messages: list[Messages]
    rows: npt.NDArray[np.int64]
    told: Meters


@dataclass
class Plan:
    """One direction of all vehicles.

    Attributes:
        vehicles: how many; first: the number of the first, which the others follow.
        entry: device by which packets reach the router; exit: the one by which they leave.
        meters: devices of the first stage (queue and rate), one per shard.
        lines: devices of the second stage (netem), one per shard; the exit itself when there is one shard.
    """

    direction: Direction
    vehicles: int
    entry: int
    exit: int
    meters: list[int]
    lines: list[int]
    first: int = 1
    state: Meters = field(init=False)
    _packed: dict[int | tuple[int, int, bool], bytes] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.state = queueing.new_meters(self.vehicles)
        self._of_meters, self._of_lines = np.array(self.meters), np.array(self.lines)

    @property
    def _key(self) -> int:
        return 0 if self.direction == "uplink" else 1  # FLOW_KEY_SRC, FLOW_KEY_DST

    def shard(self, vehicle: int) -> int:
        return vehicle % len(self.meters)

    def set_up(self) -> Iterator[bytes]:
        """Yield: the way through both stages, then class and leaf of every vehicle in each."""
        offset = 12 if self._key == 0 else 16
        yield from self._redirect(nl.CLSACT_INGRESS, self.entry, self.meters, offset)
        if self.lines != [self.exit]:
            yield from self._redirect(nl.CLSACT_EGRESS, self.exit, self.lines, offset)
        for device in self.meters:
            yield nl.htb_root(device, 0)
            yield nl.flow_filter(device, self._key)
        for device in self.lines:
            yield nl.htb_root(device, STRAY_CLASS)
            yield nl.flow_filter(device, self._key)
            yield nl.htb_class(
                device, STRAY_CLASS, queueing.UNLIMITED_BYTES, queueing.BURST_TICKS, create=True
            )
            # A plug without room: a second netem would forbid duplication (see docs/link.md).
            yield nl.plug(device, STRAY_CLASS, nl.PLUG_LIMIT, 1, create=True)
        for vehicle in range(self.first, self.first + self.vehicles):
            yield from self._make(vehicle)

    def _redirect(self, hook: int, device: int, targets: list[int], offset: int) -> Iterator[bytes]:
        mask = 0xFFFF0000 | (len(targets) - 1)
        for shard, target in enumerate(targets):
            yield nl.redirect(device, hook, (VEHICLES_BASE | shard, mask, offset), shard + 1, target)

    def _make(self, vehicle: int) -> Iterator[bytes]:
        meter, line = self.meters[self.shard(vehicle)], self.lines[self.shard(vehicle)]
        minor = vehicle + 1
        for device in (meter, line):
            yield nl.htb_class(device, minor, queueing.UNLIMITED_BYTES, queueing.BURST_TICKS, create=True)
        limit = queueing.QUEUE_MIN_BYTES
        yield nl.plug(meter, minor, nl.PLUG_LIMIT, limit, create=True)
        yield nl.plug(meter, minor, nl.PLUG_RELEASE, limit, create=False)
        yield nl.netem(line, minor, queueing.netem_options(Condition(), queueing.UNLIMITED), create=True)

    def change(
        self, terms: Terms, vehicles: npt.NDArray[np.int64], asked: npt.NDArray[np.int64], at_s: float
    ) -> Change:
        """Return an update at `at_s`: class and netem where they change, the plug where it turns.

        Args:
            terms: which numbers conditions.
            vehicles: numbers of vehicles, int64, each once.
            asked: of each the number of its condition, int64.
            at_s: time.monotonic.
        """
        rows = vehicles - self.first
        before = self.state[rows]
        told = queueing.following(before, terms, asked, at_s)
        minor, shard = vehicles + 1, vehicles % len(self.meters)
        queue = nl.places(self._of_meters[shard], minor << 16, 0x10000 | minor)
        line = nl.places(self._of_lines[shard], minor << 16, 0x10000 | minor)
        inner = nl.places(self._of_lines[shard], 0, minor << 16 | 1)
        line_of_delay = np.where(told["nested"], inner, line)
        klass = nl.places(self._of_meters[shard], 0x10000 | minor, 0x10000)
        new_rate = told["rate"] != before["rate"]
        new_bursts = told["nested"] & ((told["bursts"] != before["bursts"]) | ~before["nested"])
        # A vehicle's messages are sent in this order.
        kinds = (
            (told["queue_bytes"] != before["queue_bytes"], queue, self._limits),
            (told["held"] & ~before["held"], queue, self._hold),
            (new_rate, klass, self._rates),
            (new_bursts, line, self._bursts),
            (new_rate | (told["asked"] != before["asked"]), line_of_delay, self._delays),
            (before["held"] & ~told["held"], queue, self._release),
        )
        selected = [(np.flatnonzero(which), place, messages) for which, place, messages in kinds]
        found = []
        for start in range(0, len(rows), BLOCK_VEHICLES):
            packed: list[bytes] = []
            at, places = [], []
            for which, place, messages in selected:
                first, last = np.searchsorted(which, (start, start + BLOCK_VEHICLES))
                if first < last:
                    some = which[first:last]
                    packed += messages(told[some], terms)
                    at.append(vehicles[some])
                    places.append(place[some])
            if packed:
                block = nl.placed(packed, np.concatenate(places))
                found.append(Messages(block, np.concatenate(at), self.direction))
        return Change(found, rows, told)

    def apply(self, change: Change) -> None:
        """Take an update as sent."""
        self.state[change.rows] = change.told

    def forget(self) -> None:
        """Tell each vehicle everything with its next update: numbers of `Terms` mean something else from now on."""
        self.state["asked"] = self.state["bursts"] = queueing.FORGOTTEN
        self._packed.clear()

    def forget_all(self) -> None:
        """Tell each vehicle everything with its next update, whatever it was told."""
        self.state["queue_bytes"] = 0
        self.state["rate"] = 1  # below the floor: nobody is told that
        self.state["held"] = self.state["nested"] = True
        self.forget()

    def _limits(self, told: Meters, _terms: Terms) -> list[bytes]:
        return [nl.plug(0, 0, nl.PLUG_LIMIT, limit, create=False) for limit in told["queue_bytes"].tolist()]

    def _hold(self, told: Meters, _terms: Terms) -> list[bytes]:
        return [nl.plug(0, 0, nl.PLUG_BUFFER, 0, create=False)] * len(told)

    def _release(self, told: Meters, _terms: Terms) -> list[bytes]:
        return [nl.plug(0, 0, nl.PLUG_RELEASE, 0, create=False)] * len(told)

    def _rates(self, told: Meters, _terms: Terms) -> list[bytes]:
        packed, keys = self._packed, told["rate"].tolist()
        for rate in keys:
            if rate not in packed:
                packed[rate] = nl.htb_class(
                    0, 0, rate or queueing.UNLIMITED_BYTES, queueing.BURST_TICKS, create=False
                )
        return [packed[rate] for rate in keys]

    def _delays(self, told: Meters, terms: Terms) -> list[bytes]:
        packed = self._packed
        keys = list(zip(told["asked"].tolist(), told["rate"].tolist(), told["nested"].tolist(), strict=True))
        for key in keys:
            if key not in packed:
                asked, rate, nested = key
                options = queueing.netem_options(terms[asked], rate)
                packed[key] = nl.netem(0, 0, options, create=False)
                if nested:
                    packed[key] = nl.or_made(packed[key])
        return [packed[key] for key in keys]

    def _bursts(self, told: Meters, terms: Terms) -> list[bytes]:
        """Return what netems for losses in bursts are told.

        The kernel begins anew, and tells nobody in which state it was: begin as one does who comes at any time.
        """
        found = []
        for number in told["bursts"].tolist():
            bursts = None if number == queueing.NO_BURSTS else terms.bursts[number]
            bad = bursts is not None and random.random() < bursts.bad_share
            found.append(nl.netem(0, 0, queueing.burst_options(bursts, bad=bad), create=False))
        return found
