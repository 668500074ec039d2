"""How fast captured frames are counted and attributed: blocks as the kernel's ring makes them, one core."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator

import numpy as np

from simulator.capture.attribution import Attributor
from simulator.capture.counting import Counter
from simulator.capture.fields import READ_AHEAD_BYTES
from simulator.capture.packet_ring import frames_of_block, walk

VEHICLES = 1_000
BLOCK_BYTES = 1 << 20
HEADER_BYTES = 82  # tpacket3_hdr, sockaddr_ll and the kernel's alignment before the frame
CLOUD = bytes([198, 19, 0, 1])
ROUNDS = 3


def frame(vehicle: int, up: bool, numbers: tuple[int, int], flags: int, payload: bytes) -> bytes:
    near = bytes([198, 18, vehicle >> 8, vehicle & 255])
    ends, ports = (near + CLOUD, (40_000, 1883)) if up else (CLOUD + near, (1883, 40_000))
    tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, 0x80, flags, 500, 0, 0) + bytes(12)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 52 + len(payload), 0, 0x4000, 64, 6, 0) + ends
    return bytes(12) + b"\x08\x00" + ip + tcp + payload


def exchanges(messages: int, payload_bytes: int) -> Iterator[bytes]:
    """Yield MQTT QoS 1 of all vehicles in random order: PUBLISH, PUBACK, and the ACK of that."""
    vehicles = list(range(1, VEHICLES + 1))
    sequence = dict.fromkeys(vehicles, 1)
    acknowledged = dict.fromkeys(vehicles, 1)
    connect = b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02v1"
    for vehicle in vehicles:
        yield frame(vehicle, True, (0, 0), 2, b"")
        yield frame(vehicle, False, (0, 1), 18, b"")
        yield frame(vehicle, True, (1, 1), 24, connect)
        sequence[vehicle] += len(connect)
    chance = random.Random(1)
    topic = b"vehicles/YV2RT40A8KB000001/status"
    for number in range(messages):
        vehicle = chance.choice(vehicles)
        identifier = struct.pack(">H", number % 65_535 + 1)
        body = struct.pack(">H", len(topic)) + topic + identifier + b"\x00" + bytes(payload_bytes)
        publish = b"\x32" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body
        yield frame(vehicle, True, (sequence[vehicle], acknowledged[vehicle]), 24, publish)
        sequence[vehicle] += len(publish)
        yield frame(vehicle, False, (acknowledged[vehicle], sequence[vehicle]), 24, b"\x40\x02" + identifier)
        acknowledged[vehicle] += 4
        yield frame(vehicle, True, (sequence[vehicle], acknowledged[vehicle]), 16, b"")


def blocks(frames: Iterator[bytes]) -> Iterator[tuple[bytearray, int]]:
    """Yield ring blocks of TPACKET_V3: headers in a chain, 16-byte aligned."""
    data, count = bytearray(48), 0
    for number, content in enumerate(frames):
        size = (HEADER_BYTES + len(content) + 15) // 16 * 16
        if len(data) + size > BLOCK_BYTES:
            yield data + bytes(READ_AHEAD_BYTES), count
            data, count = bytearray(48), 0
        second, rest = divmod(number * 10_000, 1_000_000_000)
        header = struct.pack("=IIIIIIHH", size, second, rest, len(content), len(content), 0, HEADER_BYTES, 96)
        data += (header.ljust(HEADER_BYTES, b"\0") + content).ljust(size, b"\0")
        count += 1
    if count:
        yield data + bytes(READ_AHEAD_BYTES), count


def count(ring: list[tuple[bytearray, int]]) -> float:
    counter = Counter(0)
    begin = time.process_time()
    for data, number in ring:
        counter.add(frames_of_block(np.frombuffer(data, np.uint8), walk(data, number, 48)))
        counter.take()
    return time.process_time() - begin


def attribute(ring: list[tuple[bytearray, int]]) -> float:
    attributor = Attributor(start_at_ns=0)
    begin = time.process_time()
    for data, number in ring:
        attributor.add(frames_of_block(np.frombuffer(data, np.uint8), walk(data, number, 48)))
    attributor.finish()
    return time.process_time() - begin


def main() -> None:
    """Print frames per second of CPU time: best of three rounds."""
    print(f"{'parser':<14}{'payload':>9}{'frames':>10}{'frames/s':>14}   target")
    for payload_bytes in (150, 1_157):
        ring = list(blocks(exchanges(60_000, payload_bytes)))
        total = sum(number for _, number in ring)
        for name, work, target in (("counting", count, ">= 500,000"), ("attribution", attribute, "")):
            best = min(work(ring) for _ in range(ROUNDS))
            print(f"{name:<14}{payload_bytes:>7} B{total:>10,}{total / best:>14,.0f}   {target}")


if __name__ == "__main__":
    main()
