"""CoAP datagrams (RFC 7252) to messages; it answers nothing.

Blocks are RFC 7959, observations RFC 7641, and uploads at once from one endpoint are told apart by Request-Tag
(RFC 9175, 3.3), as the gateway does. What OSCORE protects (RFC 8613) hides which blocks make a message: such requests are
counted as `secured`, and belong to none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from simulator.capture.byte_totals import (
    ACKNOWLEDGEMENT,
    CONNECTION,
    KEEP_ALIVE,
    MESSAGE,
    NOBODY,
    OTHER,
    RETRANSMISSION,
    SECURED,
    Handshake,
)
from simulator.capture.dtls import DtlsFlow, is_dtls
from simulator.capture.fields import UPLINK
from simulator.capture.units import Publications, Verdict

_CON, _NON, _ACK, _RST = range(4)
_GET, _FETCH = 1, 5
_CONTINUE = 2 << 5 | 31
# 4.08 and 5.03: the client begins its upload again (RFC 7959, 2.9.2; RFC 7252, 5.9.3.4).
_AGAIN = frozenset({4 << 5 | 8, 5 << 5 | 3})
_OBSERVE, _OSCORE, _BLOCK2, _BLOCK1, _REQUEST_TAG = 6, 9, 23, 27, 292
# The code of the message inside and the tag of AES-CCM-16-64-128, OSCORE's own choice (RFC 8613, 5.3 and 3.2.1).
_OSCORE_BYTES = 1 + 8
_UPLOADS_REMEMBERED = 64
# RFC 7252, 4.8.2: how long a message id names the same message.
_LIFETIME_NS = {_CON: 247_000_000_000, _NON: 145_000_000_000}
_REMEMBERED = 4096
_Key = TypeVar("_Key", int, bytes)


class Datagram(NamedTuple):
    """What of a CoAP message decides to whom it belongs; `options` holds the numbers that do."""

    kind: int
    code: int
    identifier: int
    token: bytes
    options: dict[int, int]
    tags: tuple[bytes, ...]
    payload: int


class _Exchange(NamedTuple):
    at_ns: int
    purpose: int
    target: int
    last: bool


def read_datagram(data: bytes) -> Datagram:
    """Return the header, token and deciding options of a message (RFC 7252, 3); ValueError for no CoAP."""
    if len(data) < 4 or data[0] >> 6 != 1:
        raise ValueError("CoAP: not version 1")
    length = data[0] & 15
    token = data[4 : 4 + length]
    if length > 8 or len(token) < length:
        raise ValueError("CoAP: token length")
    options, tags, payload = _options(data, 4 + length)
    return Datagram(data[0] >> 4 & 3, data[1], data[2] << 8 | data[3], token, options, tags, payload)


def _options(data: bytes, at: int) -> tuple[dict[int, int], tuple[bytes, ...], int]:
    number, found = 0, {}
    tags: tuple[bytes, ...] = ()
    while at < len(data) and data[at] != 0xFF:
        delta, length = data[at] >> 4, data[at] & 15
        at += 1
        delta, at = _extended(data, delta, at)
        length, at = _extended(data, length, at)
        number += delta
        if at + length > len(data):
            raise ValueError("CoAP: an option beyond the datagram")
        if number in (_OBSERVE, _OSCORE, _BLOCK1, _BLOCK2):
            found[number] = int.from_bytes(data[at : at + length], "big")
        elif number == _REQUEST_TAG:
            tags = (*tags, data[at : at + length])
        at += length
    return found, tags, min(at + 1, len(data))


def _extended(data: bytes, nibble: int, at: int) -> tuple[int, int]:
    if nibble < 13:
        return nibble, at
    if nibble == 15 or at + nibble - 12 > len(data):
        raise ValueError("CoAP: an option's nibble")
    if nibble == 13:
        return data[at] + 13, at + 1
    return (data[at] << 8 | data[at + 1]) + 269, at + 2


@dataclass(slots=True)
class _Upload:
    """The latest request body under one Request-Tag, or the latest that came whole."""

    target: int
    head: bytes
    body: bytearray = field(default_factory=bytearray)
    again: bool = False


class CoapFlow:
    """Both directions between one vehicle's socket and one server's."""

    def __init__(self, publications: Publications) -> None:
        self._publications = publications
        self._messages = publications.messages
        self._sent: dict[int, _Exchange] = {}
        self._received: dict[int, _Exchange] = {}
        self._tokens: dict[bytes, _Exchange] = {}
        # By Request-Tag; None is for those without blocks.
        self._uploads: dict[tuple[bytes, ...] | None, _Upload] = {}
        self._notified = NOBODY
        self._dtls = DtlsFlow(publications.session.vehicle)

    @property
    def handshakes(self) -> list[Handshake]:
        """Those of DTLS that came to their end."""
        return self._dtls.handshakes

    def take(self, direction: int, data: bytes, at_ns: int) -> Verdict:
        """Return to whom a datagram belongs; datagrams come in the order of capture."""
        if is_dtls(data):
            return self._dtls.take(direction, data, at_ns)
        try:
            datagram = read_datagram(data)
        except ValueError:
            return Verdict(OTHER, NOBODY, len(data))
        own, others = (self._sent, self._received) if direction == UPLINK else (self._received, self._sent)
        if datagram.kind in (_ACK, _RST):
            return self._answer(direction, datagram, others, at_ns)
        known = own.get(datagram.identifier)
        if known is not None and at_ns - known.at_ns <= _LIFETIME_NS[datagram.kind]:
            # The same id within its lifetime is the same message once more (RFC 7252, 4.5).
            again = RETRANSMISSION if known.target != NOBODY or known.purpose != KEEP_ALIVE else KEEP_ALIVE
            return Verdict(again, known.target, datagram.payload)
        purpose, target, last = self._first(direction, datagram, data, at_ns)
        _remember(own, datagram.identifier, _Exchange(at_ns, purpose, target, last))
        head = datagram.payload + (_OSCORE_BYTES if purpose == SECURED else 0)
        return Verdict(purpose, target, min(head, len(data)))

    def _first(self, direction: int, datagram: Datagram, data: bytes, at_ns: int) -> tuple[int, int, bool]:
        if datagram.code == 0:
            return KEEP_ALIVE, NOBODY, False
        if direction == UPLINK:
            return self._request(datagram, data, at_ns)
        return (*self._response(datagram, data, at_ns), False)

    def _request(self, datagram: Datagram, data: bytes, at_ns: int) -> tuple[int, int, bool]:
        if datagram.code in (_GET, _FETCH):
            further = datagram.options.get(_BLOCK2, 0) >> 4 > 0
            purpose, target = (ACKNOWLEDGEMENT, self._notified) if further else (CONNECTION, NOBODY)
            last = False
        elif _OSCORE in datagram.options:
            purpose, target, last = SECURED, NOBODY, False
        else:
            purpose, target, last = self._publish(datagram, data)
        _remember(self._tokens, datagram.token, _Exchange(at_ns, purpose, target, last))
        return purpose, target, last

    def _publish(self, datagram: Datagram, data: bytes) -> tuple[int, int, bool]:
        """Return purpose and message of a request with a body; a later block (RFC 7959, 2.2) continues it."""
        block = datagram.options.get(_BLOCK1)
        key = None if block is None else datagram.tags
        upload, purpose = self._uploads.get(key), MESSAGE
        if block is None or block >> 4 == 0:
            purpose, upload = self._begin(key, upload, data[datagram.payload :])
        elif upload is None:
            return OTHER, NOBODY, False
        upload.body += data[datagram.payload :]
        last = block is None or not block & 8
        if last:
            self._publications.completed(upload.target, upload.body)
        return purpose, upload.target, last

    def _begin(
        self, key: tuple[bytes, ...] | None, latest: _Upload | None, head: bytes
    ) -> tuple[int, _Upload]:
        """Begin a message, or the latest one anew, which the server has asked for."""
        if latest is not None and latest.again and head == latest.head:
            latest.body, latest.again = bytearray(), False
            return RETRANSMISSION, latest
        self._uploads.pop(key, None)
        upload = self._uploads[key] = _Upload(self._publications.publish(), head)
        if len(self._uploads) > _UPLOADS_REMEMBERED:
            del self._uploads[next(iter(self._uploads))]
        return MESSAGE, upload

    def _answer(
        self, direction: int, datagram: Datagram, others: dict[int, _Exchange], at_ns: int
    ) -> Verdict:
        exchange = others.get(datagram.identifier)
        if exchange is None:
            return Verdict(ACKNOWLEDGEMENT, NOBODY, datagram.payload)
        if direction != UPLINK:
            self._settle(exchange, datagram.code, at_ns)
        return Verdict(_answers(exchange.purpose), exchange.target, datagram.payload)

    def _response(self, datagram: Datagram, data: bytes, at_ns: int) -> tuple[int, int]:
        exchange = self._tokens.get(datagram.token)
        if exchange is None:
            return OTHER, NOBODY
        if exchange.purpose == CONNECTION and _OBSERVE in datagram.options:
            self._notified = self._publications.echo(data[datagram.payload :])
            return MESSAGE, self._notified
        self._settle(exchange, datagram.code, at_ns)
        return _answers(exchange.purpose), exchange.target

    def _settle(self, exchange: _Exchange, code: int, at_ns: int) -> None:
        if exchange.purpose not in (MESSAGE, RETRANSMISSION) or exchange.target == NOBODY:
            return
        if exchange.last:
            self._messages.reached(exchange.target, at_ns)
        if code >> 5 == 2 and code != _CONTINUE:
            self._messages.acknowledged(exchange.target, at_ns)
        elif code in _AGAIN:
            for upload in self._uploads.values():
                upload.again |= upload.target == exchange.target


def _answers(purpose: int) -> int:
    return purpose if purpose in (CONNECTION, KEEP_ALIVE, OTHER) else ACKNOWLEDGEMENT


def _remember(memory: dict[_Key, _Exchange], key: _Key, exchange: _Exchange) -> None:
    """Keep an exchange, and let go of those whose identifiers are free again, and of the oldest of too many."""
    memory.pop(key, None)
    memory[key] = exchange
    over_ns = exchange.at_ns - max(_LIFETIME_NS.values())
    while memory[oldest := next(iter(memory))].at_ns < over_ns or len(memory) > _REMEMBERED:
        del memory[oldest]
