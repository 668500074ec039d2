"""Capture files (classic pcap, libpcap's savefile format) from batches of frames; opens no device."""

from __future__ import annotations

import struct
from typing import IO

from simulator.capture.fields import Frames

MAGIC_NS = 0xA1B23C4D
ETHERNET = 1
_HEADER = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_NS = 1_000_000_000


def write_header(file: IO[bytes], snap_bytes: int) -> None:
    """Write the file header: little-endian, nanoseconds, Ethernet."""
    file.write(_HEADER.pack(MAGIC_NS, 2, 4, 0, 0, snap_bytes, ETHERNET))


def records(frames: Frames, snap_bytes: int) -> bytes:
    """Return the batch as pcap records, each frame cut at `snap_bytes`."""
    data = frames.buffer.data
    parts: list[bytes | memoryview] = []
    columns = (frames.offsets, frames.captured_bytes, frames.link_bytes, frames.at_ns)
    for start, captured, length, at_ns in zip(*(c.tolist() for c in columns), strict=True):
        kept = min(captured, snap_bytes)
        parts.append(_RECORD.pack(at_ns // _NS, at_ns % _NS, kept, length))
        parts.append(data[start : start + kept])
    return b"".join(parts)
