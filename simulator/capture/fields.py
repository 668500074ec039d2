"""Header fields of many frames at once, as arrays; knows offsets (RFC 791, 9293, 768, 826), no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

LINK_HEADER_BYTES = 14
# The longest Ethernet frame of an MTU of 1,500: anything longer was never one packet on a wire.
MAX_FRAME_BYTES = 1514
# Every field below lies in the first 14 + 60 + 20 bytes; a buffer must go on that far behind the last frame.
READ_AHEAD_BYTES = 96
# How many bytes of a frame must be there for all of that (the longest IP header, the fixed TCP header).
MIN_SNAP_BYTES = LINK_HEADER_BYTES + 60 + 20
VEHICLES_PREFIX = 0xC612  # 198.18.0.0/16
UPLINK, DOWNLINK, ASIDE = 0, 1, 2
DIRECTIONS = ("uplink", "downlink", "aside")
FIN, SYN, RST, ACK = 1, 2, 4, 16


@dataclass(frozen=True)
class Frames:
    """Frames of one buffer: `at_ns` and `link_bytes` (length on the wire) of each, and where each begins."""

    buffer: Bytes
    offsets: Ints
    captured_bytes: Ints
    link_bytes: Ints
    at_ns: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Frames:
        """Return some of the frames, in the same buffer."""
        return Frames(
            self.buffer,
            self.offsets[which],
            self.captured_bytes[which],
            self.link_bytes[which],
            self.at_ns[which],
        )


@dataclass(frozen=True)
class Fields:
    """One array a field, one element a frame; the TCP fields mean nothing where `tcp` is false."""

    direction: Bytes
    vehicle: Words
    tcp: npt.NDArray[np.bool_]
    udp: npt.NDArray[np.bool_]
    ip_header_bytes: Ints
    transport_header_bytes: Ints
    application_bytes: Ints
    source: Words
    destination: Words
    ports: Words
    sequence: Words
    flags: Bytes

    def of(self, ends: Ints) -> npt.NDArray[np.bool_]:
        """Say of each frame whether it comes from or goes to one of these ends, by their numbers."""
        found: npt.NDArray[np.bool_] = (self.direction != ASIDE) & np.isin(self.vehicle, ends)
        return found


class _Reader:
    """Big-endian words at any offset: one unaligned gather each, then a swap (twice as fast as '>u4')."""

    def __init__(self, buffer: Bytes, offsets: Ints) -> None:
        self._bytes = buffer
        self._words = np.ndarray(shape=(max(len(buffer) - 3, 0),), dtype="<u4", buffer=buffer, strides=(1,))
        self._offsets = offsets

    def byte(self, at: int | Ints) -> Bytes:
        found: Bytes = self._bytes[self._offsets + at]
        return found

    def word(self, at: int | Ints) -> Words:
        swapped: Words = self._words[self._offsets + at].byteswap()
        return swapped


def read_fields(frames: Frames) -> Fields:
    """Return the header fields of every frame; what is neither IPv4 nor ARP is `ASIDE`.

    A frame of which fewer than `MIN_SNAP_BYTES` were kept counts by its length alone when that cuts a header.
    """
    read = _Reader(frames.buffer, frames.offsets)
    size = frames.captured_bytes
    kind_and_version = read.word(12)
    kind = kind_and_version >> 16
    arp = (kind == 0x0806) & (size >= 42)
    ip = (kind == 0x0800) & (size >= 34) & (((kind_and_version >> 12) & 15) == 4)
    ip_header = ((kind_and_version >> 8) & 15).astype(np.int64) * 4
    ip_header[~ip] = 0
    source, destination = read.word(26), read.word(30)
    if arp.any():
        source = np.where(arp, read.word(28), source)
        destination = np.where(arp, read.word(38), destination)
    direction, vehicle = _sides(source, destination, ip | arp)
    # A later fragment (RFC 791, 3.1) has no transport header: it counts as bytes of IP.
    whole = ip & ((read.word(18) & 0x1FFF) == 0)
    number = read.byte(23)
    start = LINK_HEADER_BYTES + ip_header
    tcp = whole & (number == 6) & (size >= start + 20)
    udp = whole & (number == 17) & (size >= start + 8)
    total = (read.word(14) & 0xFFFF).astype(np.int64)
    # A super-frame may carry the length 0 (the kernel's BIG TCP); the frame itself tells then.
    total = np.where(total == 0, frames.link_bytes - LINK_HEADER_BYTES, total)
    length_and_flags = read.word(start + 12)
    transport = np.where(tcp, (length_and_flags >> 28).astype(np.int64) * 4, 8 * udp.astype(np.int64))
    inside = np.where(tcp | udp, total - ip_header - transport, 0)
    return Fields(
        direction=direction,
        vehicle=vehicle,
        tcp=tcp,
        udp=udp,
        ip_header_bytes=ip_header,
        transport_header_bytes=transport,
        application_bytes=np.maximum(inside, 0),
        source=source,
        destination=destination,
        ports=read.word(start),
        sequence=read.word(start + 4),
        flags=((length_and_flags >> 16) & 0xFF).astype(np.uint8),
    )


def _sides(source: Words, destination: Words, addressed: npt.NDArray[np.bool_]) -> tuple[Bytes, Words]:
    up = addressed & (source >> 16 == VEHICLES_PREFIX)
    down = addressed & ~up & (destination >> 16 == VEHICLES_PREFIX)
    direction = np.full(len(source), ASIDE, np.uint8)
    direction[up] = UPLINK
    direction[down] = DOWNLINK
    vehicle = np.where(up, source, np.where(down, destination, np.uint32(0))) & np.uint32(0xFFFF)
    return direction, vehicle.astype(np.uint32)
