"""Frames by hand for the tests: headers right enough to parse, checksums left zero."""

from __future__ import annotations

import struct

import numpy as np

from simulator.capture.fields import READ_AHEAD_BYTES, Frames

CLOUD = 0xC6130001


def vehicle(number):
    return 0xC6120000 | number


def ethernet(packet, kind=0x0800):
    return bytes(12) + struct.pack(">H", kind) + packet


def ipv4(source, destination, protocol, body, *, identity=0, fragment=0x4000, options=b""):
    words = (20 + len(options)) // 4
    head = struct.pack(
        ">BBHHHBBHII",
        0x40 | words, 0, 4 * words + len(body), identity, fragment, 64, protocol, 0, source, destination,
    )  # fmt: skip
    return head + options + body


def tcp(ports, sequence, acknowledgement, flags, payload=b"", options=b""):
    words = 5 + len(options) // 4
    head = struct.pack(
        ">HHIIBBHHH", *ports, sequence % 2**32, acknowledgement % 2**32, words << 4, flags, 500, 0, 0
    )
    return head + options + payload


def udp(ports, payload):
    return struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload


def tcp_frame(number, up, sequence, acknowledgement, flags, payload=b"", port=40000, options=bytes(12), **ip):
    ends = (vehicle(number), CLOUD) if up else (CLOUD, vehicle(number))
    ports = (port, 1883) if up else (1883, port)
    return ethernet(ipv4(*ends, 6, tcp(ports, sequence, acknowledgement, flags, payload, options), **ip))


def udp_frame(number, up, payload, port=50000, far=5683, **ip):
    ends = (vehicle(number), CLOUD) if up else (CLOUD, vehicle(number))
    return ethernet(ipv4(*ends, 17, udp((port, far) if up else (far, port), payload), **ip))


def batch(frames, at_ns=None):
    """Return frames (bytes) as one batch, one millisecond apart unless the stamps are given."""
    stamps = at_ns if at_ns is not None else [10**9 + k * 10**6 for k in range(len(frames))]
    sizes = np.array([len(frame) for frame in frames], np.int64)
    data = b"".join(frames) + bytes(READ_AHEAD_BYTES)
    return Frames(
        buffer=np.frombuffer(data, np.uint8),
        offsets=np.cumsum(sizes) - sizes,
        captured_bytes=sizes,
        link_bytes=sizes,
        at_ns=np.array(stamps, np.int64),
    )


def mqtt(kind, body, flags=0):
    length, rest = b"", len(body)
    while True:
        length += bytes([rest & 127 | (128 if rest > 127 else 0)])
        rest >>= 7
        if not rest:
            return bytes([kind << 4 | flags]) + length + body


def mqtt_connect(level=5):
    properties = b"\x00" if level == 5 else b""
    return mqtt(1, b"\x00\x04MQTT" + bytes([level, 2, 0, 60]) + properties + b"\x00\x01a")


def mqtt_publish(payload, identifier=None, topic=b"vehicles/x/status", level=5, dup=False):
    body = struct.pack(">H", len(topic)) + topic
    if identifier is not None:
        body += struct.pack(">H", identifier)
    body += (b"\x00" if level == 5 else b"") + payload
    return mqtt(3, body, (2 if identifier is not None else 0) | (8 if dup else 0))


def amqp_frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def amqp_publish(payload, channel=1, frame_max=131072):
    method = struct.pack(">HHH", 60, 40, 0) + b"\x05iovex" + b"\x11vehicles.x.status" + b"\x00"
    header = struct.pack(">HHQH", 60, 0, len(payload), 0)
    size = frame_max - 8
    parts = [payload[k : k + size] for k in range(0, len(payload), size)]
    return (
        amqp_frame(1, channel, method)
        + amqp_frame(2, channel, header)
        + b"".join(amqp_frame(3, channel, part) for part in parts)
    )


def amqp_ack(tag, multiple=False, channel=1):
    return amqp_frame(1, channel, struct.pack(">HHQB", 60, 80, tag, multiple))
