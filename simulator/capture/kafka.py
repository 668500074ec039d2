"""Kafka's requests and responses in a byte stream (Kafka protocol guide, "Common Request and Response Structure").

A gateway at the edge speaks it over the link. Each is a size and that many bytes, of which a request begins with its kind
and version and a number, and its response with that number. Which messages of vehicles are in a request of records is not
read: it is told apart from answers and from what keeps the connection, and no further.
"""

from __future__ import annotations

import struct
from typing import Final

from simulator.capture.byte_totals import ACKNOWLEDGEMENT, CONNECTION, MESSAGE, NOBODY, OTHER
from simulator.capture.fields import UPLINK
from simulator.capture.units import Publications, Unit

# Size, kind, version, number; of a response size and number.
_REQUEST: Final = struct.Struct(">ihhi")
_RESPONSE: Final = struct.Struct(">ii")
_SIZE_BYTES: Final = 4
PRODUCE, API_VERSIONS = 0, 18
# A client's first request asks for the versions, and names itself: no more than this.
_FIRST_MAX: Final = 1_024
_FIRST_VERSION_MAX: Final = 15
_FRAME_MAX: Final = 1 << 28


def begins(head: bytes) -> bool | None:
    """Say whether a client's first bytes are Kafka's: a request for the versions; None while more are needed."""
    if head[0] != 0:
        return False
    if len(head) < _REQUEST.size:
        return None
    size, kind, version, _ = _REQUEST.unpack_from(head)
    return bool(
        _REQUEST.size - _SIZE_BYTES <= size <= _FIRST_MAX
        and kind == API_VERSIONS
        and 0 <= version <= _FIRST_VERSION_MAX
    )


class KafkaScanner:
    """Both directions of one connection."""

    def __init__(self, publications: Publications) -> None:
        del publications  # no message of a vehicle is told apart
        self._asked: dict[int, int] = {}

    def scan(self, direction: int, data: bytearray, position: int, at_ns: int) -> tuple[list[Unit], int]:
        """Return the whole requests, or responses, at the start of `data`."""
        del at_ns
        units: list[Unit] = []
        header = _REQUEST if direction == UPLINK else _RESPONSE
        start = 0
        while len(data) - start >= header.size:
            size = int.from_bytes(data[start : start + _SIZE_BYTES], "big")
            if not header.size - _SIZE_BYTES <= size <= _FRAME_MAX:
                raise ValueError("Kafka: a size out of range")
            end = start + _SIZE_BYTES + size
            if end > len(data):
                break
            last = position + end
            units.append(
                Unit(position + start, last, last, last, self._purpose(direction, data, start), NOBODY)
            )
            start = end
        return units, start

    def rest(self, direction: int, data: bytearray, position: int) -> Unit:
        """Return the request or response cut short."""
        del direction
        end = position + len(data)
        return Unit(position, end, end, end, OTHER, NOBODY)

    def _purpose(self, direction: int, data: bytearray, start: int) -> int:
        if direction == UPLINK:
            _, kind, _, number = _REQUEST.unpack_from(data, start)
            self._asked[number] = kind
            return MESSAGE if kind == PRODUCE else CONNECTION
        _, number = _RESPONSE.unpack_from(data, start)
        return ACKNOWLEDGEMENT if self._asked.pop(number, None) == PRODUCE else CONNECTION
