"""CoAP datagrams (RFC 7252; blocks: RFC 7959; observation: RFC 7641) to messages; it answers nothing."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from simulator.wire.accounts import (
    ACKNOWLEDGEMENT,
    CONNECTION,
    KEEP_ALIVE,
    MESSAGE,
    NOBODY,
    OTHER,
    RETRANSMISSION,
    Messages,
)
from simulator.wire.fields import UPLINK
from simulator.wire.units import COAP, Payloads, Publications, Session

_CON, _NON, _ACK, _RST = range(4)
_GET, _FETCH = 1, 5
_CONTINUE = 2 << 5 | 31
_OBSERVE, _BLOCK2, _BLOCK1 = 6, 23, 27
# RFC 7252, 4.8.2: how long a message id names the same message.
_LIFETIME_NS = {_CON: 247_000_000_000, _NON: 145_000_000_000}
_REMEMBERED = 4096
_Key = TypeVar("_Key", int, bytes)


class Datagram(NamedTuple):
    """What of a CoAP message decides to whom it belongs; `options` holds the three that do."""

    kind: int
    code: int
    identifier: int
    token: bytes
    options: dict[int, int]
    payload: int


class Verdict(NamedTuple):
    """Purpose and message of a datagram, and where in it the payload begins."""

    purpose: int
    target: int
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
    options, payload = _options(data, 4 + length)
    return Datagram(data[0] >> 4 & 3, data[1], data[2] << 8 | data[3], token, options, payload)


def _options(data: bytes, at: int) -> tuple[dict[int, int], int]:
    number, found = 0, {}
    while at < len(data) and data[at] != 0xFF:
        delta, length = data[at] >> 4, data[at] & 15
        at += 1
        delta, at = _extended(data, delta, at)
        length, at = _extended(data, length, at)
        number += delta
        if at + length > len(data):
            raise ValueError("CoAP: an option beyond the datagram")
        if number in (_OBSERVE, _BLOCK1, _BLOCK2):
            found[number] = int.from_bytes(data[at : at + length], "big")
        at += length
    return found, min(at + 1, len(data))


def _extended(data: bytes, nibble: int, at: int) -> tuple[int, int]:
    if nibble < 13:
        return nibble, at
    if nibble == 15 or at + nibble - 12 > len(data):
        raise ValueError("CoAP: an option's nibble")
    if nibble == 13:
        return data[at] + 13, at + 1
    return (data[at] << 8 | data[at + 1]) + 269, at + 2


class CoapFlow:
    """Both directions between one vehicle's socket and one server's."""

    def __init__(self, messages: Messages, session: Session, payloads: Payloads) -> None:
        self._publications = Publications(messages, session, COAP, payloads)
        self._messages = messages
        self._sent: dict[int, _Exchange] = {}
        self._received: dict[int, _Exchange] = {}
        self._tokens: dict[bytes, _Exchange] = {}
        self._blocks = NOBODY
        self._body = bytearray()
        self._head = b""
        self._notified = NOBODY

    def take(self, direction: int, data: bytes, at_ns: int) -> Verdict:
        """Return to whom a datagram belongs; datagrams come in the order of capture."""
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
        return Verdict(purpose, target, datagram.payload)

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
        else:
            purpose, target, last = self._publish(datagram, data)
        _remember(self._tokens, datagram.token, _Exchange(at_ns, purpose, target, last))
        return purpose, target, last

    def _publish(self, datagram: Datagram, data: bytes) -> tuple[int, int, bool]:
        """Return purpose and message of a request with a body; a later block (RFC 7959, 2.2) continues it."""
        block = datagram.options.get(_BLOCK1)
        purpose = MESSAGE
        if block is None or block >> 4 == 0:
            purpose = self._begin(data[datagram.payload :])
        elif self._blocks == NOBODY:
            return OTHER, NOBODY, False
        self._body += data[datagram.payload :]
        last = block is None or not block & 8
        if last:
            self._publications.completed(self._blocks, self._body)
        return purpose, self._blocks, last

    def _begin(self, head: bytes) -> int:
        """Begin a message, or the last one anew: a client that had no answer sends it under another id."""
        current = self._blocks
        again = current != NOBODY and head == self._head and not self._messages.acknowledged_at_ns[current]
        self._body = bytearray()
        if again:
            return RETRANSMISSION
        self._head = head
        self._blocks = self._publications.publish()
        return MESSAGE

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


def _answers(purpose: int) -> int:
    return purpose if purpose in (CONNECTION, KEEP_ALIVE, OTHER) else ACKNOWLEDGEMENT


def _remember(memory: dict[_Key, _Exchange], key: _Key, exchange: _Exchange) -> None:
    memory.pop(key, None)
    memory[key] = exchange
    if len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]
