"""MQTT control packets in a byte stream (MQTT 3.1.1 and 5.0, section 2 of each); it checks no semantics."""

from __future__ import annotations

from simulator.capture.byte_totals import (
    ACKNOWLEDGEMENT,
    CONNECTION,
    KEEP_ALIVE,
    MESSAGE,
    NOBODY,
    OTHER,
    RETRANSMISSION,
    Target,
)
from simulator.capture.fields import UPLINK
from simulator.capture.units import Publications, Unit

CONNECT, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, PINGREQ, PINGRESP = 1, 3, 4, 5, 6, 7, 12, 13
_ACKNOWLEDGES = {PUBACK, PUBREC, PUBREL, PUBCOMP}
_VERSION_5 = 5


def variable_length(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Return a variable byte integer (MQTT 5, 1.5.5) and where it ends; None when more bytes are needed."""
    value = 0
    for index in range(4):
        if at + index >= len(data):
            return None
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("MQTT: a length of more than four bytes")


def begins(head: bytes) -> bool:
    """Say whether a vehicle's first bytes are MQTT's: a CONNECT (MQTT 5, 3.1.0-1)."""
    return head[0] == CONNECT << 4


class MqttScanner:
    """Both directions of one MQTT connection."""

    def __init__(self, publications: Publications) -> None:
        self._publications = publications
        self._version = 4
        # Deliveries to the vehicle's side have identifiers of their own.
        self._delivered: dict[int, int] = {}

    def scan(self, direction: int, data: bytearray, position: int, at_ns: int) -> tuple[list[Unit], int]:
        """Return the whole control packets at the start of `data`."""
        units: list[Unit] = []
        start, size = 0, len(data)
        while size - start >= 2:
            length = variable_length(data, start + 1)
            if length is None:
                break
            body = length[1]
            end = body + length[0]
            if end > size:
                break
            units.append(self._unit(direction, data, position, (start, body, end), at_ns))
            start = end
        return units, start

    def rest(self, direction: int, data: bytearray, position: int) -> Unit:
        """Return the packet cut short; a PUBLISH counts as a message that never left whole."""
        end = position + len(data)
        nothing = Unit(position, end, end, end, OTHER, NOBODY)
        length = variable_length(data, 1)
        if length is None or data[0] >> 4 != PUBLISH or direction != UPLINK:
            return nothing
        try:
            payload, identifier = self._publish_header(data, length[1])
        except (IndexError, ValueError):
            return nothing
        purpose, index = self._publish(bool(data[0] & 8), identifier)
        return Unit(position, end, min(position + payload, end), end, purpose, index)

    def _unit(
        self, direction: int, data: bytearray, position: int, span: tuple[int, int, int], at_ns: int
    ) -> Unit:
        start, body, end = span
        kind = data[start] >> 4
        if kind == PUBLISH:
            return self._publish_unit(direction, data, position, span)
        purpose: int = CONNECTION
        target: Target = NOBODY
        if kind in _ACKNOWLEDGES:
            purpose = ACKNOWLEDGEMENT
            target = self._acknowledged(direction, kind, data[body] << 8 | data[body + 1], at_ns)
        elif kind in (PINGREQ, PINGRESP):
            purpose = KEEP_ALIVE
        elif kind == CONNECT and direction == UPLINK:
            # Protocol name, then the level (MQTT 5, 3.1.2.2): from 5 on packets carry properties.
            self._version = data[body + 2 + (data[body] << 8 | data[body + 1])]
        elif kind == 0:
            raise ValueError("MQTT: control packet type 0")
        last = position + end
        return Unit(position + start, last, last, last, purpose, target)

    def _publish_header(self, data: bytearray, body: int, start: int = 0) -> tuple[int, int | None]:
        """Return where the payload begins and the packet identifier (None at QoS 0)."""
        at = body + 2 + (data[body] << 8 | data[body + 1])
        identifier = None
        if data[start] & 6:
            identifier = data[at] << 8 | data[at + 1]
            at += 2
        if self._version >= _VERSION_5:
            properties = variable_length(data, at)
            if properties is None:
                raise ValueError("MQTT: properties beyond the packet")
            at = properties[1] + properties[0]
        return at, identifier

    def _publish_unit(
        self, direction: int, data: bytearray, position: int, span: tuple[int, int, int]
    ) -> Unit:
        start, body, end = span
        payload, identifier = self._publish_header(data, body, start)
        if payload > end:
            raise ValueError("MQTT: a PUBLISH shorter than its own header")
        content = data[payload:end]
        bounds = (position + start, position + end, position + payload, position + end)
        if direction != UPLINK:
            target = self._publications.echo(content)
            if identifier is not None:
                self._delivered[identifier] = target
            return Unit(*bounds, RETRANSMISSION if data[start] & 8 else MESSAGE, target)
        purpose, index = self._publish(bool(data[start] & 8), identifier)
        self._publications.completed(index, content)
        return Unit(*bounds, purpose, index, True)

    def _publish(self, again: bool, identifier: int | None) -> tuple[int, int]:
        """Return purpose and message; DUP with an identifier in flight is the same message once more."""
        in_flight = self._publications.session.in_flight
        if identifier is None:
            return MESSAGE, self._publications.publish()
        if again and identifier in in_flight:
            return RETRANSMISSION, in_flight[identifier]
        index = in_flight[identifier] = self._publications.publish()
        return MESSAGE, index

    def _acknowledged(self, direction: int, kind: int, identifier: int, at_ns: int) -> int:
        upwards = direction == UPLINK
        if upwards != (kind == PUBREL):
            return self._delivered.get(identifier, NOBODY)
        session = self._publications.session
        index = session.in_flight.get(identifier, session.finished.get(identifier, NOBODY))
        if index != NOBODY and kind in (PUBACK, PUBCOMP):
            self._publications.messages.acknowledged(index, at_ns)
            # Free again (MQTT 5, 2.2.1): the next DUP with this number is another message.
            session.finish(identifier, index)
        return index
