"""ICMP echo round-trip times from the vehicles' side to the cloud's address; no program of that name is needed."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Final

from schemas.topics import CLOUD_ADDRESS, vehicle_address
from simulator.links import Link
from simulator.links.namespaces import inside

_ECHO_REQUEST: Final = 8
_ECHO_REPLY: Final = 0
_HEADER: Final = struct.Struct("!BBHHH")
_PAYLOAD: Final = bytes(56)
_TIMEOUT_S: Final = 1.0
# As many as the protocol paper sent.
PINGS: Final = 200
FIRST_PINGS: Final = 10


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def request(identifier: int, sequence: int) -> bytes:
    """Return an ICMP echo request (RFC 792) with 56 bytes, as ping sends them."""
    bare = _HEADER.pack(_ECHO_REQUEST, 0, 0, identifier, sequence) + _PAYLOAD
    return _HEADER.pack(_ECHO_REQUEST, 0, checksum(bare), identifier, sequence) + _PAYLOAD


def ping(link: Link, count: int, interval_s: float = 0.01, vehicle: int = 1) -> list[float]:
    """Return the round-trip times in ms of `count` echo requests; one without an answer in 1 s is left out."""
    identifier = os.getpid() & 0xFFFF
    with inside(link.vehicles_namespace):
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with s:
        s.bind((vehicle_address(vehicle), 0))
        s.settimeout(_TIMEOUT_S)
        found = []
        for sequence in range(count):
            time.sleep(interval_s)
            if (ms := _one(s, identifier, sequence)) is not None:
                found.append(ms)
    return found


def _one(s: socket.socket, identifier: int, sequence: int) -> float | None:
    sent_at_ns = time.perf_counter_ns()
    s.sendto(request(identifier, sequence), (CLOUD_ADDRESS, 0))
    while True:
        try:
            data = s.recv(2048)
        except TimeoutError:
            return None
        took_ns = time.perf_counter_ns() - sent_at_ns
        body = data[(data[0] & 15) * 4 :]
        if len(body) >= _HEADER.size:
            kind, _, _, whose, number = _HEADER.unpack_from(body)
            if (kind, whose, number) == (_ECHO_REPLY, identifier, sequence):
                return took_ns / 1e6
