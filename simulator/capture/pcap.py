"""Capture files (classic pcap, libpcap's savefile format) to and from batches of frames; opens no device."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from schemas.errors import Refusal
from simulator.capture.fields import READ_AHEAD_BYTES, Frames

MAGIC_NS, MAGIC_US = 0xA1B23C4D, 0xA1B2C3D4
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


def read_pcap(path: Path, batch_frames: int = 50_000) -> Iterator[Frames]:
    """Yield the frames of a file in batches; `Refusal` for another kind of file or a torn one."""
    data = path.read_bytes()
    if len(data) < _HEADER.size:
        raise Refusal(f"{path}: {len(data)} bytes are no pcap file")
    magic, *_, link_type = _HEADER.unpack_from(data)
    if magic not in (MAGIC_NS, MAGIC_US) or link_type != ETHERNET:
        raise Refusal(f"{path}: not a little-endian Ethernet pcap (magic {magic:#x}, link type {link_type})")
    yield from _batches(path, data, 1 if magic == MAGIC_NS else 1000, batch_frames)


def _batches(path: Path, data: bytes, unit_ns: int, batch_frames: int) -> Iterator[Frames]:
    buffer = np.frombuffer(data + bytes(READ_AHEAD_BYTES), np.uint8)
    position, end = _HEADER.size, len(data)
    while position < end:
        rows: list[tuple[int, int, int, int]] = []
        while position < end and len(rows) < batch_frames:
            if end - position < _RECORD.size:
                raise Refusal(f"{path}: torn record header at byte {position}")
            seconds, fraction, captured, length = _RECORD.unpack_from(data, position)
            position += _RECORD.size
            rows.append((position, captured, length, seconds * _NS + fraction * unit_ns))
            position += captured
        if position > end:
            raise Refusal(f"{path}: torn frame at byte {rows[-1][0]}")
        columns = np.array(rows, np.int64).T
        yield Frames(buffer, columns[0], columns[1], columns[2], columns[3])
