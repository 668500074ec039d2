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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Final, NamedTuple

from schemas.topics import VEHICLES_NETWORK
from simulator.links import netlink as nl
from simulator.links import queueing
from simulator.links.base import Condition, Direction, GilbertElliott
from simulator.links.queueing import Meter

SHARD_VEHICLES: Final = 128
MOST_PACKED: Final = 1 << 16
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


class Change(NamedTuple):
    """One message and whose it is."""

    vehicle: int
    direction: Direction
    message: bytes


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
    state: dict[int, Meter] = field(default_factory=dict)
    _packed: dict[tuple[int, int | None], tuple[Condition, bytes]] = field(default_factory=dict, repr=False)

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
        self.state[vehicle] = Meter()
        for device in (meter, line):
            yield nl.htb_class(device, minor, queueing.UNLIMITED_BYTES, queueing.BURST_TICKS, create=True)
        limit = self.state[vehicle].queue_bytes
        yield nl.plug(meter, minor, nl.PLUG_LIMIT, limit, create=True)
        yield nl.plug(meter, minor, nl.PLUG_RELEASE, limit, create=False)
        yield nl.netem(line, minor, queueing.netem_options(Condition(), None), create=True)

    def changes(
        self, conditions: Iterable[tuple[int, Condition]], at_s: float, told: dict[int, Meter]
    ) -> Iterator[Change]:
        """Yield every message of an update at `at_s`: class and netem where they change, the plug where it turns.

        `told` gets what each vehicle is told by them: it belongs into `state` once they are sent.
        """
        direction, shards = self.direction, len(self.meters)
        for vehicle, condition in conditions:
            shard, minor = vehicle % shards, vehicle + 1
            meter, line = self.meters[shard], self.lines[shard]
            before = self.state[vehicle]
            limit, held = before.queue_bytes, before.held
            state = told[vehicle] = before.following(condition, at_s)
            rate = queueing.UNLIMITED_BYTES if state.rate is None else state.rate
            if state.queue_bytes != limit:
                message = nl.plug(meter, minor, nl.PLUG_LIMIT, state.queue_bytes, create=False)
                yield Change(vehicle, direction, message)
            if state.held and not held:
                yield Change(vehicle, direction, nl.plug(meter, minor, nl.PLUG_BUFFER, 0, create=False))
            if state.rate != before.rate:
                message = nl.htb_class(meter, minor, rate, queueing.BURST_TICKS, create=False)
                yield Change(vehicle, direction, message)
            place = nl.leaf_at
            if state.nested:
                place = nl.inner_at
                if state.bursts != before.bursts or not before.nested:
                    yield Change(vehicle, direction, nl.leaf_at(line, minor, _bursts(state.bursts)))
            # Conditions that are equal are the same objects in a schedule.
            if condition is not before.asked or state.rate != before.rate:
                message = place(line, minor, self._netem(condition, state.rate))
                yield Change(vehicle, direction, message)
            if held and not state.held:
                yield Change(vehicle, direction, nl.plug(meter, minor, nl.PLUG_RELEASE, 0, create=False))

    def _netem(self, condition: Condition, rate: int | None) -> bytes:
        """Return what netem is told of a condition, for no place yet: a schedule hands out the same objects again and again."""
        key = id(condition), rate
        known = self._packed.get(key)
        if known is None or known[0] is not condition:
            if len(self._packed) >= MOST_PACKED:
                self._packed.clear()
            options = queueing.netem_options(condition, rate)
            known = self._packed[key] = condition, nl.netem(0, 0, options, create=False)
        return known[1]


def _bursts(bursts: GilbertElliott | None) -> bytes:
    """Return what a netem for losses in bursts is told, for no place yet.

    The kernel begins anew, and tells nobody in which state it was: begin as one does who comes at any time.
    """
    bad = bursts is not None and random.random() < bursts.bad_share
    return nl.netem(0, 0, queueing.burst_options(bursts, bad=bad), create=False)
