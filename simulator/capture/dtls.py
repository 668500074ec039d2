"""Records of DTLS 1.2 (RFC 6347) between a vehicle and a server: what they are for, and when a handshake began and ended."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.capture.byte_totals import HANDSHAKE, NOBODY, SECURED, Handshake
from simulator.capture.fields import DOWNLINK
from simulator.capture.units import Verdict

# A CoAP message begins otherwise, with its version.
_TYPES = (b"\x14", b"\x15", b"\x16", b"\x17")
_VERSION = b"\xfe"
_CHANGE_CIPHER_SPEC, _HANDSHAKE_RECORD = 20, 22
_HEADER_BYTES = 13
_CLIENT_HELLO = b"\x01"
# Behind the header of a record: type, length, number and fragment of the handshake message, and its version.
_RANDOM = slice(_HEADER_BYTES + 14, _HEADER_BYTES + 46)
# Of an AES-CCM-8 record the header, the explicit nonce and the tag are its own (RFC 6655, 3 and 4).
_RECORD_BYTES = _HEADER_BYTES + 8 + 8


def is_dtls(data: bytes) -> bool:
    """Say whether a datagram begins like one of DTLS."""
    return data[:1] in _TYPES and data[1:2] == _VERSION


class DtlsFlow:
    """Both directions between one vehicle's socket and one server's.

    A handshake begins with the first ClientHello of its random and ends with the server's Finished, the one record of its
    kind that is encrypted on the way down; neither is told apart from being sent again by anything else.

    Attributes:
        handshakes: those that came to their end.
    """

    def __init__(self, vehicle: int) -> None:
        self._vehicle = vehicle
        self._random = b""
        self._begun_at_ns: int | None = None
        self._record_bytes = 0
        self.handshakes: list[Handshake] = []

    def take(self, direction: int, data: bytes, at_ns: int) -> Verdict:
        """Return the verdict on a datagram for which `is_dtls` holds: its first record says whether a handshake goes on."""
        self._record_bytes += len(data)
        for kind, epoch, begin in _records(data):
            if kind != _HANDSHAKE_RECORD:
                continue
            if epoch == 0 and data[begin + _HEADER_BYTES : begin + _HEADER_BYTES + 1] == _CLIENT_HELLO:
                random = data[begin + _RANDOM.start : begin + _RANDOM.stop]
                if random != self._random:
                    self._random, self._begun_at_ns, self._record_bytes = random, at_ns, len(data)
            elif epoch and direction == DOWNLINK and self._begun_at_ns is not None:
                self.handshakes.append(
                    Handshake(
                        self._vehicle,
                        self._begun_at_ns,
                        at_ns,
                        resumed=False,
                        record_bytes=self._record_bytes,
                    )
                )
                self._begun_at_ns = None
        if data[0] in (_CHANGE_CIPHER_SPEC, _HANDSHAKE_RECORD) or not any(
            data[3:5]
        ):  # nothing is encrypted yet
            return Verdict(HANDSHAKE, NOBODY, len(data))
        return Verdict(SECURED, NOBODY, min(_RECORD_BYTES, len(data)))


def _records(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, epoch and begin of each record that has a whole header."""
    at = 0
    while at + _HEADER_BYTES <= len(data):
        yield data[at], data[at + 3] << 8 | data[at + 4], at
        at += _HEADER_BYTES + (data[at + 11] << 8 | data[at + 12])
