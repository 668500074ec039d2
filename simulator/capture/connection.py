"""One TCP connection between a vehicle and the cloud: segments in, bytes booked out."""

from __future__ import annotations

from typing import NamedTuple

from simulator.capture.byte_totals import (
    CONNECTION,
    KEEP_ALIVE,
    NOBODY,
    PROBE,
    RETRANSMISSION,
    Amounts,
    ByteTotals,
    Cell,
    Messages,
)
from simulator.capture.fields import ACK, FIN, RST, SYN, UPLINK
from simulator.capture.parsers import STREAM_PARSERS
from simulator.capture.stream import Carrier, Piece, Stream, acknowledged
from simulator.capture.units import Payloads, Publications, Session

_WRAP = 1 << 32
_HALF = 1 << 31


class Segment(NamedTuple):
    """One TCP segment: header sizes in bytes, and the cell into which its bytes go."""

    at_ns: int
    direction: int
    sequence: int
    acknowledgement: int
    flags: int
    payload: bytes
    transport: int
    ip: int
    link: int
    cell: Cell


class _Half:
    """One direction's numbers: where its stream begins, and what was seen of its end."""

    def __init__(self, totals: ByteTotals, direction: int) -> None:
        self.stream = Stream(totals, direction)
        self.initial: int | None = None
        self.end: int | None = None
        self.probed = False
        self._zero = 0

    def open(self, sequence: int) -> None:
        """Begin the stream: its byte 0 has this sequence number."""
        self._zero = sequence

    def position(self, sequence: int) -> int:
        """Return the stream position of a sequence number: the one within 2**31 of the newest byte."""
        expected = (self._zero + self.stream.next) % _WRAP
        return self.stream.next + (sequence - expected + _HALF) % _WRAP - _HALF


class Connection:
    """Follows both directions; a connection whose SYN was not captured stays opaque.

    Attributes:
        ends: segments that ended it and are waited out.
    """

    def __init__(self, totals: ByteTotals, session: Session, payloads: Payloads, probe: bool = False) -> None:
        self._totals = totals
        self._session = session
        self._payloads = payloads
        self._probe = probe
        self._halves = (_Half(totals, 0), _Half(totals, 1))
        self._sniffed = False
        self._readable = True
        self._reset = False
        self.ends = 0

    @property
    def missed_bytes(self) -> int:
        """Application bytes that the other side acknowledged and this capture never saw."""
        return sum(half.stream.missed_bytes for half in self._halves)

    @property
    def unreadable(self) -> bool:
        """True where messages could not be told apart: TLS, another protocol, no start, a hole."""
        return not self._readable or any(half.stream.opaque for half in self._halves)

    @property
    def ended(self) -> bool:
        """Whether it was reset, or both sides have said that they send no more; either may come again for a while."""
        return self._reset or all(half.end is not None for half in self._halves)

    def is_new_connection(self, segment: Segment) -> bool:
        """Tell whether a SYN opens another connection on the same addresses and ports."""
        initial = self._halves[segment.direction].initial
        opens = segment.flags & (SYN | ACK) == SYN
        return opens and initial is not None and initial != segment.sequence

    def take(self, segment: Segment) -> None:
        """Follow one segment, in the order of capture."""
        half, other = self._halves[segment.direction], self._halves[1 - segment.direction]
        if self._probe:
            self._book(segment, PROBE, opaque=len(segment.payload))
            return
        if segment.flags & SYN:
            self._synchronise(segment, half)
            return
        if half.initial is None:
            self._join_late(half, segment.sequence)
        before, reached = self._acknowledge(segment, other)
        if segment.payload:
            self._data(segment, half)
        elif segment.flags & (FIN | RST):
            self._close(segment, half)
        else:
            self._without_data(segment, half, other, (before, reached))
        if segment.flags & RST:
            self._reset = True
        if segment.flags & FIN:
            half.end = half.position(segment.sequence) + len(segment.payload)

    def finish(self) -> None:
        """Book what waits; the connection is over or the capture is."""
        for half in self._halves:
            half.stream.finish()
        scanner = self._halves[UPLINK].stream.scanner
        self._totals.handshakes += getattr(scanner, "handshakes", ())

    def _synchronise(self, segment: Segment, half: _Half) -> None:
        again = half.initial == segment.sequence
        if half.initial is None:
            half.initial = segment.sequence
            half.open((segment.sequence + 1) % _WRAP)
        self._book(segment, RETRANSMISSION if again else CONNECTION, opaque=len(segment.payload))

    def _join_late(self, half: _Half, sequence: int) -> None:
        half.initial = (sequence - 1) % _WRAP
        half.open(sequence)
        for each in self._halves:
            each.stream.opaque = True

    def _acknowledge(self, segment: Segment, other: _Half) -> tuple[int, int]:
        if not segment.flags & ACK:
            return 0, 0
        if other.initial is None:
            self._join_late(other, segment.acknowledgement)
        reached = other.position(segment.acknowledgement)
        stream = other.stream
        limit = stream.next if other.end is None else max(stream.next, other.end + 1)
        if reached > limit:
            stream.skip_to(reached)
        return stream.acknowledge(reached, segment.at_ns), reached

    def _data(self, segment: Segment, half: _Half) -> None:
        position = half.position(segment.sequence)
        stream = half.stream
        half.probed = False
        if len(segment.payload) == 1 and position == stream.next - 1:
            half.probed = True
            self._book(segment, KEEP_ALIVE, opaque=1)
            return
        if position < 0:
            # Before the first byte we know of (joined late): it was there, and nobody can say what it was.
            self._book(segment, RETRANSMISSION, opaque=len(segment.payload))
            return
        pieces = stream.receive(position, segment.payload)
        self._sniff(segment.direction, stream)
        stream.parse(segment.at_ns)
        stream.carry(self._carrier(segment, pieces))

    def _sniff(self, direction: int, stream: Stream) -> None:
        """Tell the protocol by the vehicle's first bytes; a server that speaks first is none of ours."""
        if self._sniffed or stream.opaque:
            return
        head = stream.first_bytes()
        if not head:
            return
        found = {row: row.begins(head) for row in STREAM_PARSERS} if direction == UPLINK else {}
        row = next((row for row, begins in found.items() if begins), None)
        if row is None and None in found.values():
            return
        self._sniffed = True
        scanner = None
        if row is not None:
            messages: Messages = self._totals.messages
            scanner = row.scanner(Publications(messages, self._session, row.protocol, self._payloads))
            self._readable = row.readable
        for half in self._halves:
            half.stream.scanner = scanner
            half.stream.opaque = scanner is None

    def _close(self, segment: Segment, half: _Half) -> None:
        again = bool(segment.flags & FIN) and half.end is not None
        self._book(segment, RETRANSMISSION if again else CONNECTION)

    def _without_data(
        self, segment: Segment, half: _Half, other: _Half, acknowledges: tuple[int, int]
    ) -> None:
        """Book a segment without data: a keep-alive, its answer, or an acknowledgement."""
        if half.position(segment.sequence) == half.stream.next - 1:
            half.probed = True
            self._book(segment, KEEP_ALIVE)
            return
        before, reached = acknowledges
        if other.probed and reached <= before:
            other.probed = False
            self._book(segment, KEEP_ALIVE)
            return
        stream = other.stream
        start, end = max(before, 0), min(reached, stream.next)
        if reached <= before:
            # Nothing new: it asks for the byte that is missing, or repeats what it has.
            waits = reached == before and (stream.early or stream.next > reached)
            start, end = (reached, reached + 1) if waits else (reached - 1, reached)
        if start < 0 or start >= end or (not stream.early and end > stream.next):
            self._book(segment, CONNECTION)
            return
        stream.carry(self._carrier(segment, acknowledged(start, end)))

    def _carrier(self, segment: Segment, pieces: list[Piece]) -> Carrier:
        return Carrier(
            needs=pieces[-1].end,
            pieces=pieces,
            transport=segment.transport,
            ip=segment.ip,
            link=segment.link,
            cell=segment.cell,
            direction=segment.direction,
            at_ns=segment.at_ns,
        )

    def _book(self, segment: Segment, purpose: int, opaque: int = 0) -> None:
        amounts = Amounts(0, 0, opaque, segment.transport, segment.ip, segment.link)
        self._totals.book(segment.cell, segment.direction, purpose, NOBODY, amounts)
