"""MQTT 5 and 3.1.1 packets as a receiving client needs them: bytes in, bytes out; it keeps no state.

Clauses are those of the OASIS standard MQTT Version 5.0; 3.1.1 has the same packets without properties and reasons.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

CONNECT: Final = 0x10
CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
SUBSCRIBE: Final = 0x82
SUBACK: Final = 0x90
UNSUBSCRIBE: Final = 0xA2
UNSUBACK: Final = 0xB0
PINGREQ: Final = 0xC0
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0

_FAILURE = 0x80
# Of a peer's own words (Reason String), which may have 65,535 bytes.
MOST_WORDS: Final = 200

# Reason codes (2.4) that can be met here; another one is shown by its number.
REASONS: Final = {
    0x00: "normal disconnection", 0x04: "disconnect with will message", 0x80: "unspecified error",
    0x81: "malformed packet", 0x82: "protocol error", 0x83: "implementation specific error",
    0x84: "unsupported protocol version", 0x85: "client identifier not valid", 0x86: "bad user name or password",
    0x87: "not authorized", 0x88: "server unavailable", 0x89: "server busy", 0x8A: "banned",
    0x8B: "server shutting down", 0x8D: "keep alive timeout", 0x8E: "session taken over",
    0x8F: "topic filter invalid", 0x90: "topic name invalid", 0x91: "packet identifier in use",
    0x93: "receive maximum exceeded", 0x94: "topic alias invalid", 0x95: "packet too large",
    0x96: "message rate too high", 0x97: "quota exceeded", 0x98: "administrative action",
    0x99: "payload format invalid", 0x9C: "use another server", 0x9D: "server moved",
    0x9E: "shared subscriptions not supported", 0x9F: "connection rate exceeded",
    0xA0: "maximum connect time", 0xA1: "subscription identifiers not supported",
    0xA2: "wildcard subscriptions not supported",
}  # fmt: skip
# MQTT 3.1.1, 3.2.2.3.
REFUSALS_311: Final = {
    1: "unacceptable protocol version", 2: "identifier rejected", 3: "server unavailable",
    4: "bad user name or password", 5: "not authorized",
}  # fmt: skip

# Properties (2.2.2.2) by identifier: name, and how many bytes the value has; 0 stands for a length of two bytes before it.
_RECEIVE_MAXIMUM, _SERVER_KEEP_ALIVE, _SESSION_EXPIRY, _REASON_STRING = 0x21, 0x13, 0x11, 0x1F
_MAXIMUM_PACKET_SIZE = 0x27
_FIXED = {0x01: 1, 0x02: 4, 0x11: 4, 0x13: 2, 0x17: 1, 0x18: 4, 0x19: 1, 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1,
          0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}  # fmt: skip
_CONTENT_TYPE = 0x03
# Of a session that does not end (3.1.2.11.2).
NO_EXPIRY_S: Final = 2**32 - 1
UNREADABLE: Final = b"(properties that cannot be read)"
_TEXT = frozenset({0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F})
_SUBSCRIPTION_IDENTIFIER, _USER_PROPERTY = 0x0B, 0x26


class MalformedPacketError(ValueError):
    """Bytes that are no MQTT, or a packet that must not come here.

    Attributes:
        code: the reason code for DISCONNECT (4.13).
    """

    def __init__(self, reason: str, code: int = 0x81) -> None:
        super().__init__(reason)
        self.code = code


def variable_integer(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a variable byte integer (1.5.5) and the position behind it, or None when cut short."""
    value = 0
    for shift in range(0, 28, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise MalformedPacketError(f"variable byte integer longer than 4 bytes at {at}")


def encode_variable_integer(value: int) -> bytes:
    """Encode a variable byte integer (1.5.5)."""
    out = bytearray()
    while True:
        value, digit = divmod(value, 128)
        out.append(digit | (128 if value else 0))
        if not value:
            return bytes(out)


def skip_properties(data: bytes, at: int) -> int:
    """Return the position behind the properties (2.2.2) that start at `at`."""
    decoded = variable_integer(data, at)
    if decoded is None:
        raise MalformedPacketError(f"properties cut short at {at}")
    return decoded[0] + decoded[1]


def content_type(data: bytes, at: int) -> bytes:
    """Return the content type (3.3.2.3.9) among the properties that start at `at`; b"" where there is none.

    Properties that cannot be read have one that is no media type: whoever sent them, the broker has let them through, and a
    closed connection would bring them again.
    """
    try:
        found = properties(data, at).get(_CONTENT_TYPE, b"")
    except (MalformedPacketError, IndexError):
        return UNREADABLE
    assert isinstance(found, bytes), "it is a text (2.2.2.2)"
    return found


def properties(data: bytes, at: int) -> dict[int, int | bytes]:
    """Return the properties (2.2.2) that start at `at`, by identifier; of one that is there twice the last."""
    decoded = variable_integer(data, at)
    if decoded is None:
        raise MalformedPacketError(f"properties cut short at {at}")
    length, at = decoded
    end = at + length
    if end > len(data):
        raise MalformedPacketError(f"properties of {length} bytes in a packet that ends before them")
    found: dict[int, int | bytes] = {}
    while at < end:
        identifier, at = data[at], at + 1
        if identifier in _FIXED:
            size = _FIXED[identifier]
            found[identifier] = int.from_bytes(data[at : at + size], "big")
            at += size
        elif identifier in _TEXT or identifier == _USER_PROPERTY:
            for _ in range(2 if identifier == _USER_PROPERTY else 1):
                size = int.from_bytes(data[at : at + 2], "big")
                found[identifier] = data[at + 2 : at + 2 + size]
                at += 2 + size
        elif identifier == _SUBSCRIPTION_IDENTIFIER:
            at = skip_variable_integer(data, at)
        else:
            raise MalformedPacketError(f"unknown property 0x{identifier:02x}")
    if at != end:
        raise MalformedPacketError("a property runs over the end of the properties")
    return found


def skip_variable_integer(data: bytes, at: int) -> int:
    """Return the position behind a variable byte integer."""
    decoded = variable_integer(data, at)
    if decoded is None:
        raise MalformedPacketError(f"variable byte integer cut short at {at}")
    return decoded[1]


@dataclass(frozen=True)
class Credentials:
    """Who connects; `username` None sends neither."""

    client_id: str
    username: str | None = None
    password: str | None = None


def connect(
    who: Credentials,
    *,
    five: bool,
    keepalive_s: int,
    session_expiry_s: int,
    receive_max: int,
    maximum_packet_bytes: int,
) -> bytes:
    """Return CONNECT (3.1): the session is continued (Clean Start 0), for 3.1.1 kept without end.

    MQTT 5 says which packets the broker need not send, since they would not be taken (3.1.2.11.4).
    """
    flags = (0x80 if who.username is not None else 0) | (0x40 if who.password is not None else 0)
    body = _text("MQTT") + struct.pack("!BBH", 5 if five else 4, flags, keepalive_s)
    if five:
        wanted = struct.pack(
            "!BIBHBI",
            _SESSION_EXPIRY,
            session_expiry_s,
            _RECEIVE_MAXIMUM,
            receive_max,
            _MAXIMUM_PACKET_SIZE,
            maximum_packet_bytes,
        )
        body += bytes((len(wanted),)) + wanted
    body += _text(who.client_id)
    body += b"" if who.username is None else _text(who.username)
    body += b"" if who.password is None else _text(who.password)
    return _packet(CONNECT, body)


def subscribe(packet_id: int, topic_filter: str, qos: int, *, five: bool) -> bytes:
    """Return SUBSCRIBE (3.8) for one filter; of retained messages only those of a new subscription (3.8.3.1)."""
    options = qos | (0x10 if five and not topic_filter.startswith("$share/") else 0)
    empty = b"\x00" if five else b""
    return _packet(SUBSCRIBE, packet_id.to_bytes(2, "big") + empty + _text(topic_filter) + bytes((options,)))


def publish(topic: str, payload: bytes, *, five: bool) -> bytes:
    """Return PUBLISH (3.3) at QoS 0."""
    return _packet(PUBLISH, _text(topic) + (b"\x00" if five else b"") + payload)


def unsubscribe(packet_id: int, topic_filter: str, *, five: bool) -> bytes:
    """Return UNSUBSCRIBE (3.10) for one filter."""
    return _packet(
        UNSUBSCRIBE, packet_id.to_bytes(2, "big") + (b"\x00" if five else b"") + _text(topic_filter)
    )


def disconnect(*, five: bool, code: int = 0, session_expiry_s: int | None = None) -> bytes:
    """Return DISCONNECT (3.14); 3.1.1 has neither a reason nor an expiry."""
    if not five:
        return bytes((DISCONNECT, 0))
    if session_expiry_s is None:
        return bytes((DISCONNECT, 1, code)) if code else bytes((DISCONNECT, 0))
    return _packet(DISCONNECT, bytes((code, 5)) + struct.pack("!BI", _SESSION_EXPIRY, session_expiry_s))


PING: Final = bytes((PINGREQ, 0))


@dataclass(frozen=True)
class Connack:
    """What the broker says to CONNECT (3.2).

    Attributes:
        refusal: why it does not accept; None when it does.
        keepalive_s, session_expiry_s: what to use in place of what was asked for (3.2.2.3.14, 3.2.2.3.2), or None.
    """

    session_present: bool
    refusal: str | None
    keepalive_s: int | None = None
    session_expiry_s: int | None = None


def connack(body: bytes, *, five: bool) -> Connack:
    """Decode CONNACK. Raises MalformedPacketError."""
    if len(body) < (3 if five and body[1:2] == b"\x00" else 2):
        raise MalformedPacketError("CONNACK cut short")
    code = body[1]
    if not five:
        refusal = None if code == 0 else REFUSALS_311.get(code, f"return code {code}")
        return Connack(bool(body[0] & 1), refusal)
    found = properties(body, 2) if len(body) > 2 else {}
    if code:
        return Connack(False, _reason(code, found))
    keepalive, expiry = found.get(_SERVER_KEEP_ALIVE), found.get(_SESSION_EXPIRY)
    return Connack(
        bool(body[0] & 1),
        None,
        int(keepalive) if keepalive is not None else None,
        int(expiry) if expiry is not None else None,
    )


def suback(body: bytes, *, five: bool) -> tuple[int, int, str | None]:
    """Decode SUBACK (3.9) for one filter: packet identifier, granted QoS, reason of a refusal or None."""
    if len(body) < 3:
        raise MalformedPacketError("SUBACK cut short")
    packet_id, at, found = body[0] << 8 | body[1], 2, {}
    if five:
        found, at = properties(body, 2), skip_properties(body, 2)
    if at >= len(body):
        raise MalformedPacketError("SUBACK without a reason code")
    code = body[at]
    return packet_id, code, _reason(code, found) if code >= _FAILURE else None


def unsuback(body: bytes) -> int:
    """Decode UNSUBACK (3.11): the packet identifier; a filter that was not there is gone as well."""
    if len(body) < 2:
        raise MalformedPacketError("UNSUBACK cut short")
    return body[0] << 8 | body[1]


def disconnected(body: bytes) -> tuple[int, str]:
    """Decode a broker's DISCONNECT (3.14): reason code and words."""
    code = body[0] if body else 0
    return code, _reason(code, properties(body, 1) if len(body) > 1 else {})


def _reason(code: int, found: dict[int, int | bytes]) -> str:
    said = found.get(_REASON_STRING)
    own = said.decode("utf-8", "replace") if isinstance(said, bytes) else ""
    return in_words(REASONS.get(code, f"reason code 0x{code:02x}"), own)


def in_words(reason: str, own: str) -> str:
    """Return a reason code's name and the peer's own words for it (Reason String, MQTT 5), in one line of bounded length."""
    harmless = "".join(letter if letter.isprintable() else "\ufffd" for letter in own[:MOST_WORDS])
    return f"{reason}: {harmless}" if harmless else reason


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(head: int, body: bytes) -> bytes:
    return bytes((head,)) + encode_variable_integer(len(body)) + body
