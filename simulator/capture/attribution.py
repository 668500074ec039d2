"""Frames of many vehicles at once to the messages they are for; every byte is booked exactly once.

The capture sees frames; a study asks what a message costs. This module leads each frame to its vehicle (by address),
its connection (by ports; a new SYN begins another) and its protocol's parser, and those book its bytes by purpose:
message, acknowledgement, keep-alive, connection, retransmission, probe, other. The invariant that the property tests
hold: the sum over all purposes and messages is the sum of the frames' lengths, whatever the frames are.

What belongs to no message stays with its vehicle. A TCP acknowledgement belongs to the messages whose bytes it
acknowledges; an acknowledgement of the protocol to the message that it names. Frames before the run's start are booked
apart by their stamps, not by when they are read. What cannot be read is booked as opaque and counted: there is no
guess, since a wrong guess would shift bytes from one message to another without a trace.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from schemas.errors import Refusal
from simulator.capture.byte_totals import (
    BEFORE_START,
    MESSAGE,
    NOBODY,
    OTHER,
    PROBE,
    RUN,
    SECURED,
    Amounts,
    ByteTotals,
    Cell,
)
from simulator.capture.connection import Connection, Segment
from simulator.capture.fields import (
    ASIDE,
    DOWNLINK,
    FIN,
    LINK_HEADER_BYTES,
    RST,
    UPLINK,
    VEHICLES_PREFIX,
    Frames,
)
from simulator.capture.parsers import DATAGRAM_PARSERS
from simulator.capture.units import DatagramFlow, Payloads, Publications, Session

# From byte 12: type, version and length, service, total, id, fragment, time to live, protocol, checksum,
# both addresses; then, with an IP header of 20 bytes, ports, sequence, acknowledgement, offset, flags.
_FIELDS = struct.Struct(">HBBHHHBBHIIHHIIBB").unpack_from
_TRANSPORT = struct.Struct(">HHIIBB").unpack_from
_IPV4, _ARP = 0x0800, 0x0806
_ICMP, _TCP, _UDP = 1, 6, 17
_ECHOES = (0, 8)
_REMEMBERED_FRAGMENTS = 4096
# Two segment lifetimes: behind them nothing of a connection that is over comes any more (RFC 9293, 3.4.2).
_LATE_NS = 240_000_000_000

Flow = tuple[int, int, int, int]


@dataclass(frozen=True)
class AttributionOptions:
    """What a capture knows of the run.

    Attributes:
        datagram_ports: the UDP ports of the servers of each protocol, by its name in `PROTOCOLS`.
        probe_ports: where the link's own probes go.
        echo: whether messages come back to the vehicles.
    """

    datagram_ports: Mapping[str, Iterable[int]] = field(default_factory=dict)
    probe_ports: tuple[int, ...] = ()
    echo: bool = False


class _Packet(NamedTuple):
    """An IPv4 packet between a vehicle and the cloud; `body` begins behind the IP header."""

    at_ns: int
    direction: int
    vehicle: int
    cell: Cell
    source: int
    destination: int
    body: bytes
    ip: int
    link: int


class Attributor:
    """Takes frames in the order of capture; `totals` is whole after `finish`.

    Args:
        options: what is known of the run.
        start_at_ns: of the run, once it is known.
        directory: on whose file system the messages' columns lie; None: the one for temporary files.
    """

    def __init__(
        self,
        options: AttributionOptions | None = None,
        start_at_ns: int | None = None,
        directory: Path | None = None,
    ) -> None:
        self.start_at_ns = start_at_ns
        self.totals = ByteTotals(directory)
        self.frames = 0
        self._options = options or AttributionOptions()
        # The server's port to the protocol; one that nothing here reads is left out, its bytes are opaque.
        self._datagrams = {
            port: protocol
            for protocol, ports in self._options.datagram_ports.items()
            if protocol in DATAGRAM_PARSERS
            for port in ports
        }
        self._probe_ports = frozenset(self._options.probe_ports)
        self._payloads = Payloads(self._options.echo)
        self._sessions: dict[int, Session] = {}
        self._connections: dict[Flow, Connection] = {}
        self._ended: deque[tuple[int, Flow, Connection]] = deque()
        self._flows: dict[Flow, DatagramFlow] = {}
        self._fragments: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._notes = {"connections": 0, "unreadable_connections": 0, "missed_bytes": 0}

    def add(self, batch: Frames) -> None:
        """Attribute a batch; `Refusal` when frames were cut (`snap_bytes`), for then nothing can be known."""
        if (batch.captured_bytes < batch.link_bytes).any():
            raise Refusal("capture holds cut frames: attribution to messages needs whole ones (snap_bytes)")
        data = batch.buffer.tobytes()
        columns: Iterable[tuple[int, ...]] = zip(
            batch.offsets.tolist(), batch.link_bytes.tolist(), batch.at_ns.tolist(), strict=True
        )
        for offset, length, at_ns in columns:
            self._frame(data, offset, length, at_ns)
        self.frames += len(batch)
        self._forget(int(batch.at_ns.max(initial=0)))

    def finish(self) -> dict[str, int]:
        """Book all that waits; return counts: connections, unreadable ones, bytes the capture missed."""
        while self._connections:
            self._end(self._connections.popitem()[1])
        while self._flows:
            self.totals.handshakes += self._flows.popitem()[1].handshakes
        return dict(self._notes)

    def _frame(self, data: bytes, offset: int, length: int, at_ns: int) -> None:
        kind, version, _, total, identity, fragment, _, protocol, _, source, destination, *rest = _FIELDS(
            data, offset + 12
        )
        if kind != _IPV4 or version >> 4 != 4 or length < 34:
            self._no_ip(data, offset, length, at_ns, kind)
            return
        if source >> 16 == VEHICLES_PREFIX:
            direction, vehicle = UPLINK, source & 0xFFFF
        elif destination >> 16 == VEHICLES_PREFIX:
            direction, vehicle = DOWNLINK, destination & 0xFFFF
        else:
            direction, vehicle = ASIDE, 0
        header = (version & 15) * 4
        # A super-frame may say 0; anything else beyond the packet's own length is padding of the link.
        end = offset + (LINK_HEADER_BYTES + total if 0 < total <= length - LINK_HEADER_BYTES else length)
        start = offset + LINK_HEADER_BYTES + header
        cell = self._cell(at_ns, vehicle, direction)
        if protocol == _TCP and not fragment & 0x3FFF and end - start >= 20 and direction != ASIDE:
            if header != 20:
                rest = list(_TRANSPORT(data, start))
            near, far, sequence, acknowledgement, words, flags = rest
            transport = (words >> 4) * 4
            flow = (
                (source, near, destination, far) if direction == UPLINK else (destination, far, source, near)
            )
            self._segment(
                flow,
                Segment(
                    at_ns,
                    direction,
                    sequence,
                    acknowledgement,
                    flags,
                    data[start + transport : end],
                    transport,
                    header,
                    length - (end - offset) + LINK_HEADER_BYTES,
                    cell,
                ),
            )
            return
        link = length - (end - offset) + LINK_HEADER_BYTES
        packet = _Packet(at_ns, direction, vehicle, cell, source, destination, data[start:end], header, link)
        self._packet(packet, protocol, identity, fragment)

    def _cell(self, at_ns: int, vehicle: int, direction: int) -> Cell:
        start = self.start_at_ns
        phase = RUN if start is not None and at_ns >= start else BEFORE_START
        return self.totals.cell(phase, vehicle, direction)

    def _no_ip(self, data: bytes, offset: int, length: int, at_ns: int, kind: int) -> None:
        """Book ARP on the vehicle it speaks for, everything else on nobody."""
        vehicle, direction = 0, ASIDE
        if kind == _ARP and length >= 42:
            (sender,), (target,) = (struct.unpack_from(">I", data, offset + at) for at in (28, 38))
            if sender >> 16 == VEHICLES_PREFIX:
                vehicle, direction = sender & 0xFFFF, UPLINK
            elif target >> 16 == VEHICLES_PREFIX:
                vehicle, direction = target & 0xFFFF, DOWNLINK
        cell = self._cell(at_ns, vehicle, direction)
        self.totals.book(cell, direction, OTHER, NOBODY, Amounts(0, 0, 0, 0, 0, length))

    def _segment(self, flow: Flow, segment: Segment) -> None:
        connection = self._connections.get(flow)
        if connection is not None and connection.is_new_connection(segment):
            self._end(connection)
            connection = None
        if connection is None:
            probe = not self._probe_ports.isdisjoint(flow[1::2])
            session = self._session(flow[0] & 0xFFFF)
            connection = Connection(self.totals, session, self._payloads, probe)
            self._connections[flow] = connection
        connection.take(segment)
        if segment.flags & (FIN | RST) and connection.ended:
            connection.ends += 1
            self._ended.append((segment.at_ns, flow, connection))

    def _forget(self, at_ns: int) -> None:
        """End connections that were over long ago: a fleet that reconnects has ever more of them."""
        while self._ended and at_ns - self._ended[0][0] > _LATE_NS:
            _, flow, connection = self._ended.popleft()
            connection.ends -= 1  # others of its ends may have come since
            if not connection.ends and self._connections.get(flow) is connection:
                self._end(self._connections.pop(flow))

    def _end(self, connection: Connection) -> None:
        connection.finish()
        self._notes["connections"] += 1
        self._notes["unreadable_connections"] += connection.unreadable
        self._notes["missed_bytes"] += connection.missed_bytes

    def _session(self, vehicle: int) -> Session:
        return self._sessions.setdefault(vehicle, Session(vehicle))

    def _packet(self, packet: _Packet, protocol: int, identity: int, fragment: int) -> None:
        key = (packet.source, packet.destination, identity)
        if fragment & 0x1FFF:
            # A later fragment has no ports: it goes where the first one went.
            purpose, target = self._fragments.get(key, (OTHER, NOBODY))
            amounts = Amounts(0, 0, len(packet.body), 0, packet.ip, packet.link)
        else:
            purpose, target, amounts = self._first(packet, protocol)
        if fragment & 0x2000 and not fragment & 0x1FFF:
            self._fragments[key] = (purpose, target)
            if len(self._fragments) > _REMEMBERED_FRAGMENTS:
                del self._fragments[next(iter(self._fragments))]
        self.totals.book(packet.cell, packet.direction, purpose, target, amounts)
        if packet.direction == UPLINK and purpose == MESSAGE:
            self.totals.messages.sent(target, packet.at_ns)

    def _first(self, packet: _Packet, protocol: int) -> tuple[int, int, Amounts]:
        body = packet.body
        opaque = Amounts(0, 0, len(body), 0, packet.ip, packet.link)
        if protocol == _ICMP:
            return (PROBE if body and body[0] in _ECHOES else OTHER), NOBODY, opaque
        if protocol != _UDP or len(body) < 8 or packet.direction == ASIDE:
            return OTHER, NOBODY, opaque
        near, far = body[0] << 8 | body[1], body[2] << 8 | body[3]
        datagram = body[8:]
        udp = Amounts(0, 0, len(datagram), 8, packet.ip, packet.link)
        if near in self._probe_ports or far in self._probe_ports:
            return PROBE, NOBODY, udp
        protocol_name = self._datagrams.get(far if packet.direction == UPLINK else near)
        if protocol_name is None:
            return OTHER, NOBODY, udp
        flow = self._flow(protocol_name, packet, near, far)
        purpose, target, payload = flow.take(packet.direction, datagram, packet.at_ns)
        if purpose == OTHER:
            return OTHER, NOBODY, udp
        content = len(datagram) - payload
        # What is encrypted is nobody's payload: only how much of it there is can be known.
        own, opaque_bytes = (0, content) if purpose == SECURED else (content, 0)
        return purpose, target, Amounts(own, payload, opaque_bytes, 8, packet.ip, packet.link)

    def _flow(self, protocol: str, packet: _Packet, near: int, far: int) -> DatagramFlow:
        flow = (packet.source, near, packet.destination, far)
        if packet.direction != UPLINK:
            flow = (packet.destination, far, packet.source, near)
        found = self._flows.get(flow)
        if found is None:
            messages, session = self.totals.messages, self._session(packet.vehicle)
            publications = Publications(messages, session, protocol, self._payloads)
            found = self._flows[flow] = DATAGRAM_PARSERS[protocol](publications)
        return found
