"""The protocol's own units in a byte stream and what finds them; it knows no TCP."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from simulator.capture.byte_totals import Handshake, Messages, Target

_REMEMBERED_PAYLOADS = 200_000
_REMEMBERED_FINISHED = 256


class Unit(NamedTuple):
    """One control packet or frame: positions count the stream's bytes from 0, ends are exclusive."""

    start: int
    end: int
    payload_start: int
    payload_end: int
    purpose: int
    target: Target
    # True when the last byte of this unit is the last byte of a message from the vehicle.
    completes: bool = False


class Scanner(Protocol):
    """Finds units in both directions of one connection; one instance lives as long as the connection."""

    def scan(self, direction: int, data: bytearray, position: int, at_ns: int) -> tuple[list[Unit], int]:
        """Return the whole units at the start of `data` (stream position `position`) and the bytes they take.

        Raises ValueError where the bytes cannot be this protocol.
        """

    def rest(self, direction: int, data: bytearray, position: int) -> Unit:
        """Return the unit that the stream's end has cut short."""


class Verdict(NamedTuple):
    """Purpose and message of a datagram, and where in it the payload begins."""

    purpose: int
    target: int
    payload: int


class DatagramFlow(Protocol):
    """Both directions between one vehicle's socket and one server's.

    Attributes:
        handshakes: those that came to their end, where datagrams are protected.
    """

    @property
    def handshakes(self) -> list[Handshake]: ...

    def take(self, direction: int, data: bytes, at_ns: int) -> Verdict:
        """Return to whom a datagram belongs; datagrams come in the order of capture."""


class Session:
    """What outlives a connection of one vehicle: how many there were, and packet identifiers in flight."""

    def __init__(self, vehicle: int) -> None:
        self.vehicle = vehicle
        self.connections = 0
        self.in_flight: dict[int, int] = {}
        self.finished: dict[int, int] = {}

    def finish(self, identifier: int, index: int) -> None:
        """Move a message out of those in flight; it is remembered for acknowledgements that come again."""
        self.finished.pop(identifier, None)
        self.finished[identifier] = self.in_flight.pop(identifier, index)
        if len(self.finished) > _REMEMBERED_FINISHED:
            del self.finished[next(iter(self.finished))]


class Publications:
    """The messages of one connection, by the order of publishing; `payloads` knows where an echo belongs."""

    def __init__(self, messages: Messages, session: Session, protocol: str, payloads: Payloads) -> None:
        self.messages = messages
        self.session = session
        self._protocol = protocol
        self._payloads = payloads
        self._connection = session.connections
        session.connections += 1
        self._order = 0

    def publish(self) -> int:
        """Return the index of the connection's next message."""
        index = self.messages.add(self.session.vehicle, self._connection, self._order, self._protocol)
        self._order += 1
        return index

    def completed(self, index: int, payload: bytes | bytearray) -> None:
        """Note that the whole message was seen leaving."""
        self.messages.complete[index] = 1
        self._payloads.remember(self.session.vehicle, payload, index)

    def echo(self, payload: bytes | bytearray) -> int:
        """Return the message whose payload comes back to this vehicle's side, or `NOBODY`."""
        return self._payloads.recall(self.session.vehicle, payload)


class Payloads:
    """Payloads sent lately, so that one coming back (the echo topology) finds its message."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._known: dict[tuple[int, int], int] = {}

    def remember(self, vehicle: int, payload: bytes | bytearray, index: int) -> None:
        """Keep the newest message of this vehicle with this payload."""
        if not self._enabled:
            return
        key = (vehicle, hash(bytes(payload)))
        self._known.pop(key, None)
        self._known[key] = index
        if len(self._known) > _REMEMBERED_PAYLOADS:
            del self._known[next(iter(self._known))]

    def recall(self, vehicle: int, payload: bytes | bytearray) -> int:
        """Return the newest message with this payload, or -1."""
        if not self._enabled:
            return -1
        return self._known.get((vehicle, hash(bytes(payload))), -1)
