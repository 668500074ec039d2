"""Where every captured byte is booked: by vehicle, purpose and layer, and by message; it parses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simulator.capture.long_column import LongColumn

# What bytes were for. The order is the column order of the tables.
MESSAGE, ACKNOWLEDGEMENT, KEEP_ALIVE, CONNECTION, HANDSHAKE, RETRANSMISSION, PROBE, SECURED, OPAQUE, OTHER = (
    range(10)
)
PURPOSES = (
    "message",
    "acknowledgement",
    "keep_alive",
    "connection",
    "handshake",
    "retransmission",
    "probe",
    "secured",
    "opaque",
    "other",
)
# The layers of a frame; `opaque` are application bytes that nobody here can read (encrypted, other protocols).
LAYERS = ("payload", "protocol", "opaque", "transport", "ip", "link")
CELL_SIZE = len(PURPOSES) * len(LAYERS)
ATTRIBUTED = CELL_SIZE  # one more number in a cell: the bytes that were booked on messages
BEFORE_START, RUN = 0, 1
PHASES = ("before_start", "run")
NOBODY = -1

# What a message costs in one direction; the seven before the last add up to its link-layer bytes.
SHARES = (
    "payload_bytes",
    "protocol_bytes",
    "transport_bytes",
    "ip_bytes",
    "link_bytes",
    "retransmitted_bytes",
    "acknowledgement_bytes",
    "tcp_acknowledgement_bytes",
)
_UP, _RETRANSMITTED, _ACKNOWLEDGED, _TCP = 0, 5, 6, 7
STRIDE = 2 * len(SHARES)

Target = int | tuple[int, ...]
Cell = list[int]


class Amounts(NamedTuple):
    """Bytes of one frame, or of a part of it, by layer."""

    payload: int
    protocol: int
    opaque: int
    transport: int
    ip: int
    link: int


class Handshake(NamedTuple):
    """One handshake of TLS, from the frame that began it to the one that ended it.

    Attributes:
        resumed: the server took up an earlier session: no certificates went over the wire.
        record_bytes: of its records, both ways; those of DTLS that were sent again count again.
    """

    vehicle: int
    begun_at_ns: int
    ended_at_ns: int
    resumed: bool
    record_bytes: int


class Messages:
    """The messages in the order of their first byte parsed, as columns on the disk (a million take 0.2 GB of it).

    Attributes:
        protocols: their names, at the places that `protocol` has.

    Args:
        directory: on whose file system the columns lie; None: the one for temporary files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.protocols: list[str] = []
        self.vehicle = LongColumn(directory)
        self.connection = LongColumn(directory)
        self.order = LongColumn(directory)
        self.protocol = LongColumn(directory)
        self.complete = LongColumn(directory)
        self.first_sent_at_ns = LongColumn(directory)
        self.last_sent_at_ns = LongColumn(directory)
        self.reached_cloud_at_ns = LongColumn(directory)
        self.acknowledged_at_ns = LongColumn(directory)
        self.shares = LongColumn(directory)

    def __len__(self) -> int:
        return len(self.vehicle)

    def add(self, vehicle: int, connection: int, order: int, protocol: str) -> int:
        """Return the index of a new message: the `order`-th publish (from 0) of that vehicle's connection."""
        self.vehicle.append(vehicle)
        self.connection.append(connection)
        self.order.append(order)
        if protocol not in self.protocols:
            self.protocols.append(protocol)
        self.protocol.append(self.protocols.index(protocol))
        self.complete.extend_zeros(1)
        self.first_sent_at_ns.extend_zeros(1)
        self.last_sent_at_ns.extend_zeros(1)
        self.reached_cloud_at_ns.extend_zeros(1)
        self.acknowledged_at_ns.extend_zeros(1)
        self.shares.extend_zeros(STRIDE)
        return len(self.vehicle) - 1

    def sent(self, target: Target, at_ns: int) -> None:
        """Note that bytes of the message left the vehicle for the first time."""
        for index in targets(target):
            if not self.first_sent_at_ns[index]:
                self.first_sent_at_ns[index] = at_ns
            self.last_sent_at_ns[index] = max(at_ns, self.last_sent_at_ns[index])

    def reached(self, index: int, at_ns: int) -> None:
        """Note that the cloud's host has all of the message; the first proof counts."""
        if not self.reached_cloud_at_ns[index]:
            self.reached_cloud_at_ns[index] = at_ns

    def acknowledged(self, target: Target, at_ns: int) -> None:
        """Note the protocol's own last acknowledgement; the first one counts."""
        for index in targets(target):
            if not self.acknowledged_at_ns[index]:
                self.acknowledged_at_ns[index] = at_ns


class ByteTotals:
    """Cells by (phase, vehicle, direction) and the messages; each `book` goes into both.

    Args:
        directory: on whose file system the messages' columns lie; None: the one for temporary files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.cells: dict[tuple[int, int, int], Cell] = {}
        self.messages = Messages(directory)
        self.handshakes: list[Handshake] = []

    def cell(self, phase: int, vehicle: int, direction: int) -> Cell:
        """Return the cell, made when it is the first time."""
        key = (phase, vehicle, direction)
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = [0] * (CELL_SIZE + 1)
        return found

    def book(self, cell: Cell, direction: int, purpose: int, target: Target, amounts: Amounts) -> None:
        """Add bytes to a cell, and to the message or messages that they were for."""
        at = purpose * 6
        payload, protocol, opaque, transport, ip, link = amounts
        cell[at] += payload
        cell[at + 1] += protocol
        cell[at + 2] += opaque
        cell[at + 3] += transport
        cell[at + 4] += ip
        cell[at + 5] += link
        if target == NOBODY:
            return
        cell[ATTRIBUTED] += payload + protocol + opaque + transport + ip + link
        if isinstance(target, int):
            self._charge(target, direction, purpose, amounts)
        else:
            for index, part in zip(target, split(amounts, [1] * len(target)), strict=True):
                self._charge(index, direction, purpose, part)

    def _charge(self, index: int, direction: int, purpose: int, amounts: Amounts) -> None:
        shares = self.messages.shares
        at = index * STRIDE + direction * len(SHARES)
        if purpose == MESSAGE:
            payload, protocol, opaque, transport, ip, link = amounts
            shares[at] += payload
            shares[at + 1] += protocol + opaque
            shares[at + 2] += transport
            shares[at + 3] += ip
            shares[at + 4] += link
            return
        total = sum(amounts)
        shares[at + (_RETRANSMITTED if purpose == RETRANSMISSION else _ACKNOWLEDGED)] += total
        if purpose == ACKNOWLEDGEMENT and total == amounts.transport + amounts.ip + amounts.link:
            shares[at + _TCP] += total


def targets(target: Target) -> tuple[int, ...]:
    """Return the messages that a target names: none, one or several."""
    if isinstance(target, int):
        return () if target == NOBODY else (target,)
    return target


def split(amounts: Amounts, weights: Sequence[int]) -> list[Amounts]:
    """Share out every layer by weight in whole bytes; the parts add up to the whole, layer by layer."""
    columns = [cumulative(amount, weights) for amount in amounts]
    return [Amounts(*parts) for parts in zip(*columns, strict=True)]


def cumulative(amount: int, weights: Sequence[int]) -> list[int]:
    """Return `amount` in whole parts by weight: each is the difference of two rounded-down running sums."""
    whole, done, before = sum(weights), 0, 0
    parts = []
    for weight in weights:
        done += weight
        until = amount * done // whole
        parts.append(until - before)
        before = until
    return parts
