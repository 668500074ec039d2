"""TLS 1.3 records in a byte stream (RFC 8446, 5.1): what the handshake took, and how much was encrypted; it decrypts nothing.

Behind ServerHello every record says "application data", those of the handshake too: only their places and lengths tell
them apart. The handshake of a client ends with its Finished (2), whose length the cipher suite fixes: a header of four
bytes, a hash, a byte for the type and the tag. No other message that OpenSSL's clients, ours, send before it has that
length in a record of its own: EndOfEarlyData and an empty Certificate are shorter, a Certificate and a CertificateVerify
longer. The client answers the server's Finished, so the server's handshake is over by then, too; its tickets (4.6.1)
come later and look like data. An older version of TLS is not read: then the connection is opaque, as any other stream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from simulator.capture.byte_totals import HANDSHAKE, NOBODY, OTHER, SECURED, Handshake
from simulator.capture.fields import UPLINK
from simulator.capture.units import Publications, Unit

_HEADER: Final = 5
_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_RECORD_MAX: Final = (1 << 14) + 256
_PRE_SHARED_KEY, _SUPPORTED_VERSIONS = 41, 43
_TLS_1_3: Final = b"\x03\x04"
_TYPE: Final = 1
_MESSAGE_HEADER: Final = 4


class _Suite(NamedTuple):
    """What of a cipher suite shows in lengths, in bytes (RFC 8446, B.4)."""

    hash_bytes: int
    tag_bytes: int


_SUITES: Final = {
    0x1301: _Suite(32, 16),
    0x1302: _Suite(48, 16),
    0x1303: _Suite(32, 16),
    0x1304: _Suite(32, 16),
    0x1305: _Suite(32, 8),
}


def begins(head: bytes) -> bool | None:
    """Say whether a vehicle's first bytes are TLS': a record with a ClientHello; None while more are needed."""
    if head[0] != _HANDSHAKE:
        return False
    if len(head) <= _HEADER:
        return None
    return head[1] == 3 and head[_HEADER] == _CLIENT_HELLO


class TlsScanner:
    """Both directions of one connection.

    Attributes:
        handshakes: those that came to their end: one, or none.
    """

    def __init__(self, publications: Publications) -> None:
        self.handshakes: list[Handshake] = []
        self._vehicle = publications.session.vehicle
        self._suite: _Suite | None = None
        self._resumed = False
        self._begun_at_ns: int | None = None
        self._record_bytes = 0
        self._over = False

    def scan(self, direction: int, data: bytearray, position: int, at_ns: int) -> tuple[list[Unit], int]:
        """Return the whole records at the start of `data`."""
        units: list[Unit] = []
        if self._begun_at_ns is None:
            self._begun_at_ns = at_ns
        start, size = 0, len(data)
        while size - start >= _HEADER:
            length = data[start + 3] << 8 | data[start + 4]
            if not _CHANGE_CIPHER_SPEC <= data[start] <= _APPLICATION_DATA or data[start + 1] != 3:
                raise ValueError("TLS: no record")
            if length > _RECORD_MAX:
                raise ValueError("TLS: a record too long")
            end = start + _HEADER + length
            if end > size:
                break
            units.append(self._unit(direction, data[start:end], position + start, at_ns))
            start = end
        return units, start

    def rest(self, direction: int, data: bytearray, position: int) -> Unit:
        """Return the record cut short."""
        del direction
        end = position + len(data)
        return Unit(position, end, end, end, OTHER, NOBODY)

    def _unit(self, direction: int, record: bytearray, position: int, at_ns: int) -> Unit:
        end = position + len(record)
        if self._over and record[0] == _APPLICATION_DATA:
            assert self._suite is not None
            content = max(len(record) - _HEADER - _TYPE - self._suite.tag_bytes, 0)
            first = position + _HEADER
            return Unit(position, end, first, first + content, SECURED, NOBODY)
        self._record_bytes += len(record)
        if record[0] == _HANDSHAKE and direction != UPLINK and record[_HEADER] == _SERVER_HELLO:
            self._read_server_hello(bytes(record[_HEADER:]))
        elif record[0] == _APPLICATION_DATA and direction == UPLINK:
            self._follow_client(len(record) - _HEADER, at_ns)
        return Unit(position, end, end, end, HANDSHAKE, NOBODY)

    def _follow_client(self, length: int, at_ns: int) -> None:
        if self._suite is None or self._begun_at_ns is None:
            raise ValueError("TLS: encrypted before ServerHello (early data)")
        if length == _MESSAGE_HEADER + self._suite.hash_bytes + _TYPE + self._suite.tag_bytes:
            self._over = True
            whole = Handshake(self._vehicle, self._begun_at_ns, at_ns, self._resumed, self._record_bytes)
            self.handshakes.append(whole)

    def _read_server_hello(self, hello: bytes) -> None:
        """Note suite and session (RFC 8446, 4.1.3). ValueError for another version, or an unknown suite."""
        at = _MESSAGE_HEADER + 2 + 32
        at += 1 + hello[at]
        suite = _SUITES.get(hello[at] << 8 | hello[at + 1])
        at += 3
        extensions = dict(_extensions(hello, at + 2, at + 2 + (hello[at] << 8 | hello[at + 1])))
        if suite is None or extensions.get(_SUPPORTED_VERSIONS) != _TLS_1_3:
            raise ValueError("TLS: not version 1.3")
        self._suite, self._resumed = suite, _PRE_SHARED_KEY in extensions


def _extensions(data: bytes, at: int, end: int) -> list[tuple[int, bytes]]:
    found = []
    while at + 4 <= min(end, len(data)):
        length = data[at + 2] << 8 | data[at + 3]
        found.append((data[at] << 8 | data[at + 1], data[at + 4 : at + 4 + length]))
        at += 4 + length
    return found
