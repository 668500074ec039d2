"""Probe traffic through an open link, with kernel time stamps at the receiver; it judges nothing."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from schemas.topics import CLOUD_ADDRESS, end_address
from simulator.links.base import Direction, Link
from simulator.links.namespaces import inside

HEADERS_BYTES: Final = 28 + 14  # IPv4 and UDP, and the Ethernet header that netem and the meter count
SO_TIMESTAMPNS: Final = 35
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
_STAMP = struct.Struct("=IIq")
_TIME = struct.Struct("=qq")


@dataclass
class Flow:
    """One stream of UDP packets of a vehicle in one direction: what to send, and what came.

    Attributes:
        frame_bytes: size on the wire, Ethernet header included (60 to 1514).
        interval_s: time between packets; `count`: how many.
        sent_at_ns, received_at_ns: by packet number; a packet that never came is not in the second.
    """

    vehicle: int
    direction: Direction
    frame_bytes: int
    interval_s: float
    count: int
    sent_at_ns: list[int] = field(default_factory=list)
    received_at_ns: dict[int, int] = field(default_factory=dict)
    duplicates: int = 0
    overtaken: int = 0
    newest: int = -1

    def delays_ms(self) -> list[float]:
        """Return the one-way delay of every packet that came, in order of sending."""
        return [(at - self.sent_at_ns[n]) / 1e6 for n, at in sorted(self.received_at_ns.items())]

    def take(self, number: int, at_ns: int) -> None:
        if number in self.received_at_ns:
            self.duplicates += 1
            return
        self.received_at_ns[number] = at_ns
        self.overtaken += number < self.newest
        self.newest = max(self.newest, number)

    def offered_bps(self) -> float:
        """Return the rate at which frames were really sent."""
        took_ns = self.sent_at_ns[-1] - self.sent_at_ns[0]
        return (len(self.sent_at_ns) - 1) * self.frame_bytes * 8e9 / took_ns if took_ns else 0.0

    def idle_s(self, rate_bps: float, within_ns: tuple[int, int] | None = None) -> float:
        """Return for how long a link of this rate, empty at the beginning, had nothing to serve.

        Args:
            rate_bps: at which it serves.
            within_ns: beginning and end; None: from the first frame to the last.
        """
        begin_ns, end_ns = within_ns or (self.sent_at_ns[0], self.sent_at_ns[-1])
        frame_ns, idle_ns, free_at_ns = self.frame_bytes * 8e9 / rate_bps, 0.0, float(begin_ns)
        for at_ns in self.sent_at_ns:
            if begin_ns <= at_ns <= end_ns:
                idle_ns += max(0.0, at_ns - free_at_ns)
                free_at_ns = max(at_ns, free_at_ns) + frame_ns
        return (idle_ns + max(0.0, end_ns - free_at_ns)) / 1e9

    def rate_bps(self) -> float:
        """Return the rate of frames received: those after the first, over the time since the first."""
        times = sorted(self.received_at_ns.values())
        if len(times) < 2 or times[-1] == times[0]:
            return 0.0
        return (len(times) - 1) * self.frame_bytes * 8e9 / (times[-1] - times[0])


def _socket(namespace: str, address: str, port: int = 0) -> socket.socket:
    with inside(namespace):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
        with contextlib.suppress(PermissionError):  # rootless: the default buffers do for light probes
            s.setsockopt(socket.SOL_SOCKET, option, 8 << 20)
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    s.setblocking(False)
    s.bind((address, port))
    return s


class Ends:
    """Sockets of probes, closed with the stack: one per vehicle, one for the cloud at `port` (0: any)."""

    def __init__(
        self, link: Link, vehicles: Iterable[int], stack: contextlib.ExitStack, port: int = 0
    ) -> None:
        self.cloud = stack.enter_context(_socket(link.cloud_namespace, CLOUD_ADDRESS, port))
        self.cloud_name = self.cloud.getsockname()
        self.vehicles = {
            vehicle: stack.enter_context(_socket(link.vehicles_namespace, end_address(vehicle)))
            for vehicle in vehicles
        }
        self.names = {vehicle: s.getsockname() for vehicle, s in self.vehicles.items()}

    def send(self, index: int, flow: Flow, number: int, padding: bytes) -> None:
        at_ns = time.time_ns()
        packet = _STAMP.pack(index, number, at_ns) + padding
        flow.sent_at_ns.append(at_ns)
        with contextlib.suppress(BlockingIOError):
            if flow.direction == "uplink":
                self.vehicles[flow.vehicle].sendto(packet, self.cloud_name)
            else:
                self.cloud.sendto(packet, self.names[flow.vehicle])


def run(link: Link, flows: Sequence[Flow], settle_s: float = 1.0) -> None:
    """Send all flows at once, each at its own pace, and take in what arrives until `settle_s` after the last.

    One thread sends and one receives; flows that the machine cannot send on time are still stamped when they
    were sent, so that a delay is never the sender's lateness.
    """
    with contextlib.ExitStack() as stack:
        ends = Ends(link, {flow.vehicle for flow in flows}, stack)
        done = threading.Event()
        receiver = threading.Thread(target=_receive, args=(ends, flows, done), daemon=True)
        receiver.start()
        try:
            _send(ends, flows)
            time.sleep(settle_s)
        finally:
            done.set()
            receiver.join()


def _due(flows: Sequence[Flow]) -> Iterator[tuple[float, int, int]]:
    """Yield (seconds from the start, flow, number) in order of time; flows start apart from each other."""
    events = [
        (number * flow.interval_s + index * flow.interval_s / len(flows), index, number)
        for index, flow in enumerate(flows)
        for number in range(flow.count)
    ]
    events.sort()
    yield from events


def _send(ends: Ends, flows: Sequence[Flow]) -> None:
    padding = [b"\0" * (flow.frame_bytes - HEADERS_BYTES - _STAMP.size) for flow in flows]
    began = time.perf_counter()
    for due_s, index, number in _due(flows):
        left_s = began + due_s - time.perf_counter()
        if left_s > 0:
            time.sleep(left_s)
        ends.send(index, flows[index], number, padding[index])


def _receive(ends: Ends, flows: Sequence[Flow], done: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for s in (ends.cloud, *ends.vehicles.values()):
            selector.register(s, selectors.EVENT_READ)
        while not done.is_set():
            for key, _events in selector.select(0.05):
                assert isinstance(key.fileobj, socket.socket)
                for payload, at_ns in receive_all(key.fileobj):
                    index, number, _sent = _STAMP.unpack_from(payload)
                    flows[index].take(number, at_ns)


def receive_all(s: socket.socket) -> Iterator[tuple[bytes, int]]:
    """Yield what waits in a socket of `Ends`, each with the kernel's time of its arrival."""
    while True:
        try:
            payload, control, _flags, _peer = s.recvmsg(2048, 64)
        except BlockingIOError:
            return
        seconds, nanoseconds = _TIME.unpack_from(control[0][2])
        yield payload, seconds * 1_000_000_000 + nanoseconds
