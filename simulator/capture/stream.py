"""One direction of a TCP connection: what is new, where units lie, whose bytes a frame carried.

A frame and a message are different things: one segment may end a PUBLISH and begin the next, and a PUBLISH of 3 kB
crosses in three segments, of which the second may be lost behind the capture and come again. Every byte of every frame
must be booked once, on the message it stands for. So the stream keeps positions, counted from the byte behind the SYN:

- `receive` says of each segment which of its bytes are new here, which were seen (a retransmission), which are
  acknowledged. Bytes whose predecessors are not here yet wait in order.
- `parse` hands contiguous bytes to the protocol's scanner, which finds units (control packets) and whose they are.
- `carry` books a frame: its payload by the units that its range touches, its headers in proportion to their bytes. A
  frame that holds a unit's beginning waits until the unit's end is known.

A hole that the capture itself has (the peer acknowledges what was never seen) is counted as missed and closed: what
is behind it is booked without a message rather than on the wrong one. A stream that does not parse is opaque and
booked as such. Sequence numbers wrap (RFC 9293, 3.4); positions here do not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from simulator.capture.byte_totals import (
    ACKNOWLEDGEMENT,
    CONNECTION,
    HANDSHAKE,
    KEEP_ALIVE,
    MESSAGE,
    NOBODY,
    OPAQUE,
    OTHER,
    RETRANSMISSION,
    SECURED,
    Amounts,
    ByteTotals,
    Cell,
    Target,
    cumulative,
)
from simulator.capture.fields import UPLINK
from simulator.capture.units import Scanner, Unit

# Acknowledged units kept for frames that come once more; what is older than these is repeated for no known message.
# A frame comes again within a few RTTs of its first copy, and in that time a vehicle sends a few messages.
_KEPT_UNITS = 64
_NEW, _SEEN, _ACKNOWLEDGED = range(3)


class Piece(NamedTuple):
    """A range of stream positions, and in which sense a frame stands for it."""

    start: int
    end: int
    sense: int


class Carrier(NamedTuple):
    """A frame waiting until the units in its range are known; headers are in bytes."""

    needs: int
    pieces: list[Piece]
    transport: int
    ip: int
    link: int
    cell: Cell
    direction: int
    at_ns: int


class _Part(NamedTuple):
    weight: int
    purpose: int
    target: Target
    application: tuple[int, int, int]


class Stream:
    """The bytes of one direction, by position from 0 (the byte behind the SYN)."""

    def __init__(self, totals: ByteTotals, direction: int) -> None:
        self.scanner: Scanner | None = None
        self.opaque = False
        self.next = 0
        self.acknowledged = 0
        self.missed_bytes = 0
        self._totals = totals
        self._direction = direction
        self._data = bytearray()
        self._parsed = 0
        self._early: list[tuple[int, int, bytes]] = []
        self._waiting: list[Carrier] = []
        self._starts: list[int] = []
        self._units: list[Unit] = []
        self._unacknowledged: deque[tuple[int, int]] = deque()

    @property
    def early(self) -> bool:
        """True while bytes are here whose predecessors are not."""
        return bool(self._early)

    def first_bytes(self) -> bytes:
        """Return what has not been parsed yet."""
        return bytes(self._data)

    def receive(self, position: int, payload: bytes) -> list[Piece]:
        """Take a segment's bytes; return which of them are new at this point of the path."""
        end = position + len(payload)
        if position == self.next and not self._early:
            self._data += payload
            self.next = end
            return [Piece(position, end, _NEW)]
        pieces = self._cover(position, end)
        for piece in pieces:
            if piece.sense == _NEW:
                part = payload[piece.start - position : piece.end - position]
                self._early.append((piece.start, piece.end, part))
        self._early.sort()
        self._join()
        return pieces

    def _cover(self, position: int, end: int) -> list[Piece]:
        pieces: list[Piece] = []
        at = position
        known = [(min(position, self.next), self.next), *((a, b) for a, b, _ in self._early)]
        for start, stop in known:
            if stop <= at or start >= end:
                continue
            if start > at:
                pieces.append(Piece(at, start, _NEW))
            pieces.append(Piece(max(at, start), min(stop, end), _SEEN))
            at = min(stop, end)
        if at < end:
            pieces.append(Piece(at, end, _NEW))
        return pieces

    def _join(self) -> None:
        while self._early and self._early[0][0] == self.next:
            _, self.next, part = self._early.pop(0)
            self._data += part

    def carry(self, carrier: Carrier) -> None:
        """Book a frame now or, when its range holds a unit still unfinished, later."""
        if carrier.needs <= self._parsed:
            self._book(carrier)
        else:
            self._waiting.append(carrier)

    def parse(self, at_ns: int) -> None:
        """Find the units in the bytes that have become contiguous; book the frames that waited."""
        if not self._data:
            return
        if self.opaque:
            self._take_opaque(OPAQUE)
        elif self.scanner is not None:
            try:
                units, taken = self.scanner.scan(self._direction, self._data, self._parsed, at_ns)
            except (ValueError, IndexError):
                # Not this protocol, or out of step: never guess where the next unit begins.
                self.opaque = True
                self._take_opaque(OPAQUE)
            else:
                self._add(units, at_ns)
                self._parsed += taken
                del self._data[:taken]
        self._release()

    def _add(self, units: list[Unit], at_ns: int) -> None:
        for unit in units:
            self._starts.append(unit.start)
            self._units.append(unit)
            if unit.completes and isinstance(unit.target, int):
                self._unacknowledged.append((unit.end, unit.target))
        self._note_reached(at_ns)
        if len(self._units) > 2 * _KEPT_UNITS:
            self._forget()

    def _forget(self) -> None:
        """Let go of old units that the other side has: nothing of them is on its way but a needless copy."""
        known = bisect_right(self._starts, self.acknowledged) - 1  # the next one may be acknowledged in part
        old = min(known, len(self._units) - _KEPT_UNITS)
        if old > 0:
            del self._units[:old], self._starts[:old]

    def _take_opaque(self, purpose: int) -> None:
        end = self._parsed + len(self._data)
        self._put(Unit(self._parsed, end, end, end, purpose, NOBODY))
        self._parsed = end
        self._data.clear()

    def _put(self, unit: Unit) -> None:
        if self._units and self._units[-1].purpose == unit.purpose in (OPAQUE, OTHER):
            self._units[-1] = self._units[-1]._replace(end=unit.end)
        else:
            self._starts.append(unit.start)
            self._units.append(unit)

    def _release(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for carrier in waiting:
            self.carry(carrier)

    def acknowledge(self, position: int, at_ns: int) -> int:
        """Note that the other side has everything below `position`; return what it had before."""
        before = self.acknowledged
        if position > before:
            self.acknowledged = position
            self._note_reached(at_ns)
        return before

    def _note_reached(self, at_ns: int) -> None:
        waiting = self._unacknowledged
        while waiting and waiting[0][0] <= self.acknowledged:
            self._totals.messages.reached(waiting.popleft()[1], at_ns)

    def skip_to(self, position: int) -> None:
        """Give up bytes that this capture has missed: from here on the stream cannot be read."""
        self.missed_bytes += position - self.next
        self.opaque = True
        self._take_opaque(OTHER)
        self._early = [part for part in self._early if part[1] > position]
        self._put(Unit(self._parsed, position, position, position, OTHER, NOBODY))
        self._parsed = self.next = position
        if self._early and self._early[0][0] < position:
            start, end, part = self._early[0]
            self._early[0] = (position, end, part[position - start :])
        self._join()
        self.parse(0)
        self._release()

    def finish(self) -> None:
        """Book what still waits: the stream ended, or the capture did, inside a unit or before a hole."""
        if self._data:
            if self.scanner is not None and not self.opaque:
                self._put(self.scanner.rest(self._direction, self._data, self._parsed))
                self._parsed += len(self._data)
                self._data.clear()
            else:
                self._take_opaque(OTHER)
        waiting, self._waiting = self._waiting, []
        for carrier in waiting:
            self._book(carrier)

    def _book(self, carrier: Carrier) -> None:
        parts = [part for piece in carrier.pieces for part in self._parts(piece)]
        if len(parts) == 1:
            self._book_part(carrier, parts[0], carrier.transport, carrier.ip, carrier.link)
            return
        weights = [part.weight for part in parts]
        headers = (cumulative(amount, weights) for amount in (carrier.transport, carrier.ip, carrier.link))
        for part, transport, ip, link in zip(parts, *headers, strict=True):
            self._book_part(carrier, part, transport, ip, link)

    def _book_part(self, carrier: Carrier, part: _Part, transport: int, ip: int, link: int) -> None:
        amounts = Amounts(*part.application, transport, ip, link)
        self._totals.book(carrier.cell, carrier.direction, part.purpose, part.target, amounts)
        if part.purpose == MESSAGE and carrier.direction == UPLINK:
            self._totals.messages.sent(part.target, carrier.at_ns)

    def _parts(self, piece: Piece) -> list[_Part]:
        """Cut a piece at the units' bounds; bytes outside every known unit are nobody's."""
        start, end, sense = piece
        if self._units and self._units[-1].start <= start and end <= self._units[-1].end:
            return [_part(self._units[-1], start, end, sense)]
        parts: list[_Part] = []
        index = max(bisect_right(self._starts, start) - 1, 0)
        at = start
        while at < end and index < len(self._units):
            unit = self._units[index]
            index += 1
            if unit.start >= end:
                break
            if unit.start > at:
                parts.append(_unknown(unit.start - at, sense))
                at = unit.start
            if unit.end > at:
                until = min(unit.end, end)
                parts.append(_part(unit, at, until, sense))
                at = until
        if at < end:
            parts.append(_unknown(end - at, sense))
        return parts


def _unknown(size: int, sense: int) -> _Part:
    if sense == _ACKNOWLEDGED:
        return _Part(size, ACKNOWLEDGEMENT, NOBODY, (0, 0, 0))
    return _Part(size, RETRANSMISSION if sense == _SEEN else OTHER, NOBODY, (0, 0, size))


def _part(unit: Unit, start: int, end: int, sense: int) -> _Part:
    size = end - start
    if sense == _ACKNOWLEDGED:
        own = unit.purpose in (CONNECTION, HANDSHAKE, KEEP_ALIVE)
        return _Part(size, unit.purpose if own else ACKNOWLEDGEMENT, unit.target, (0, 0, 0))
    if unit.purpose in (OPAQUE, OTHER) and unit.target == NOBODY:
        layers = (0, 0, size)
    else:
        payload = max(min(end, unit.payload_end) - max(start, unit.payload_start), 0)
        # What is encrypted is nobody's payload: only how much of it there is can be known.
        layers = (0, size - payload, payload) if unit.purpose == SECURED else (payload, size - payload, 0)
    return _Part(size, RETRANSMISSION if sense == _SEEN else unit.purpose, unit.target, layers)


def acknowledged(start: int, end: int) -> list[Piece]:
    """Return the range of the opposite stream that a segment without data stands for."""
    return [Piece(start, end, _ACKNOWLEDGED)]
