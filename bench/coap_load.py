"""A CoAP load for benchmarks: many endpoints, NSTART = 1 each, ready-made datagrams and no retransmission.

`python -m bench.coap_load HOST PORT MESSAGES FILE` with BENCH_RATE in the environment (messages/s over all
endpoints; 0 sends as fast as answers come). FILE has a vehicle's number and a payload in hexadecimal per
line. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from collections import deque
from pathlib import Path

from gateways.protocols.coap.address import coap_path
from schemas.topics import vehicle_id

WARM_UP = 1000
_CHANGED = 0x44


def option(delta: int, value: bytes) -> bytes:
    """Encode one option whose delta and length are below 269 (RFC 7252, 3.1)."""
    head, extra = bytearray(1), bytearray()
    for shift, number in ((4, delta), (0, len(value))):
        if number < 13:
            head[0] |= number << shift
        else:
            head[0] |= 13 << shift
            extra.append(number - 13)
    return bytes(head + extra) + value


class Vehicle:
    """One endpoint with at most one request outstanding; above 1,024 B block by block."""

    def __init__(self, number: int, address: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.connect(address)
        first, identity, last = (part.encode() for part in coap_path(vehicle_id(number)))
        self._path = option(11, first) + option(0, identity) + option(0, last)
        self._mid = number * 613 % 65_536
        self._blocks: list[bytes] = []
        self._waiting: deque[tuple[bytes, float]] = deque()

    def due(self, payload: bytes, due_s: float) -> None:
        """Send now, or once everything before it is answered; the wait counts."""
        self._waiting.append((payload, due_s))
        if len(self._waiting) == 1:
            self._begin(payload)

    def _begin(self, payload: bytes) -> None:
        if len(payload) <= 1024:
            self._blocks = [self._path + b"\xff" + payload]
        else:
            cuts = range(0, len(payload), 1024)
            self._blocks = [
                self._path
                + option(16, bytes(((i << 4) | (8 if at + 1024 < len(payload) else 0) | 6,)))
                + b"\xff"
                + payload[at : at + 1024]
                for i, at in enumerate(cuts)
            ]
        self._next()

    def _next(self) -> None:
        self._mid = (self._mid + 1) & 0xFFFF
        mid = self._mid.to_bytes(2, "big")
        self.socket.send(b"\x42\x02" + mid + mid + self._blocks.pop(0))

    def answered(self) -> tuple[int, float] | None:
        """Return the code of the final answer and when its message was due; None while more is to come."""
        datagram = self.socket.recv(2048)
        if datagram[1] == 0:
            return None  # empty ACK: a separate response follows
        if datagram[0] >> 4 & 3 == 0:
            self.socket.send(b"\x60\x00" + datagram[2:4])
        if self._blocks:
            self._next()
            return None
        _, due_s = self._waiting.popleft()
        if self._waiting:
            self._begin(self._waiting[0][0])
        return datagram[1], due_s


def run(
    address: tuple[str, int], loads: list[tuple[int, bytes]], count: int, rate: float
) -> dict[str, float]:
    """Send `count` messages, each from its own vehicle's endpoint; return times from due to answer.

    The first WARM_UP messages are sent and answered and are in no figure: Kafka's first records are slow.
    """
    measure(address, loads, WARM_UP, rate)
    return measure(address, loads, count, rate)


def measure(
    address: tuple[str, int], loads: list[tuple[int, bytes]], count: int, rate: float
) -> dict[str, float]:
    selector = selectors.DefaultSelector()
    vehicles = {number: Vehicle(number, address) for number, _ in loads}
    for vehicle in vehicles.values():
        selector.register(vehicle.socket, selectors.EVENT_READ, vehicle)
    due, done, failed = 0, 0, 0
    times_s: list[float] = []
    start_s = time.perf_counter()
    while done < count:
        now_s = time.perf_counter()
        while due < count and (now_s >= start_s + due / rate if rate else due - done < len(vehicles)):
            number, payload = loads[due % len(loads)]
            vehicles[number].due(payload, start_s + due / rate if rate else now_s)
            due += 1
        wait_s = max(0.0, start_s + due / rate - time.perf_counter()) if rate and due < count else 5.0
        ready = selector.select(wait_s)
        if not ready and wait_s == 5.0:
            raise RuntimeError(f"{done} of {count} answered, then nothing for 5 s")
        for key, _ in ready:
            answer = key.data.answered()
            if answer is not None:
                times_s.append(time.perf_counter() - answer[1])
                failed += answer[0] != _CHANGED
                done += 1
    took_s = time.perf_counter() - start_s
    selector.close()
    for vehicle in vehicles.values():
        vehicle.socket.close()
    times_s.sort()
    return {
        "messages": count, "per_s": count / took_s, "failed": failed,
        "p50_ms": times_s[len(times_s) // 2] * 1e3, "p99_ms": times_s[len(times_s) * 99 // 100] * 1e3,
    }  # fmt: skip


if __name__ == "__main__":
    lines = [line.split() for line in Path(sys.argv[4]).read_text().splitlines()]
    pairs = [(int(number), bytes.fromhex(payload)) for number, payload in lines]
    rate_per_s = float(os.environ.get("BENCH_RATE", "0"))
    print(json.dumps(run((sys.argv[1], int(sys.argv[2])), pairs, int(sys.argv[3]), rate_per_s)))
