"""The kernel's ring of captured frames (AF_PACKET, TPACKET_V3) as batches; hands frames out, judges none."""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np

from schemas.errors import Refusal
from simulator.capture.fields import READ_AHEAD_BYTES, Frames

# linux/if_packet.h
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _V3 = 263, 5, 6, 10, 2
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_STATUS_USER = 1
_BLOCK_BYTES = 1 << 20
_FRAME_BYTES = 2048
# A block is handed over when full or this old: what a live figure may lag behind.
_RETIRE_MS = 50
_BLOCK = struct.Struct("=IIII")  # at 8: status, packets, first packet's offset, bytes used
_LINK_LAYER = 48  # sockaddr_ll behind tpacket3_hdr; its packet type is 10 bytes in
_NS = 1_000_000_000


class PacketRing:
    """All frames of one device, both ways, stamped by the kernel with the wall clock.

    On `lo`, where every frame passes twice, the outgoing copy is left out.
    """

    def __init__(self, device: str, ring_mib: int = 64) -> None:
        """Attach to `device` of this thread's namespace; `Refusal` when there is none or no right."""
        self.drops = 0
        self._blocks = max(ring_mib, 2)
        self._next = 0
        self._skip_outgoing = device == "lo"
        try:
            # Protocol 0 first: with a protocol, frames of every device would come in before the bind.
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError as error:
            raise Refusal(f"capture on {device}: needs CAP_NET_RAW ({error.strerror})") from error
        try:
            self._ring = self._map()
            self._socket.bind((device, _ETH_P_ALL))
        except OSError as error:
            self._socket.close()
            raise Refusal(f"capture on {device}: {error.strerror}") from error

    def _map(self) -> mmap.mmap:
        count = _BLOCK_BYTES // _FRAME_BYTES * self._blocks
        request = struct.pack("IIIIIII", _BLOCK_BYTES, self._blocks, _FRAME_BYTES, count, _RETIRE_MS, 0, 0)
        self._socket.setsockopt(_SOL_PACKET, _VERSION, _V3)
        self._socket.setsockopt(_SOL_PACKET, _RX_RING, request)
        size = _BLOCK_BYTES * self._blocks
        return mmap.mmap(self._socket.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ring.close()
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor to poll: readable when a block is ready."""
        return self._socket.fileno()

    def batches(self) -> Iterator[Frames]:
        """Yield what is ready now, oldest first; each block is the kernel's again before it is yielded."""
        while True:
            start = self._next * _BLOCK_BYTES
            status, count, first, used = _BLOCK.unpack_from(self._ring, start + 8)
            if not status & _STATUS_USER:
                return
            # A copy (0.1 ms for a full block) gives the ring its room back before any work is done.
            data = bytearray(self._ring[start : start + used])
            struct.pack_into("=I", self._ring, start + 8, 0)
            self._next = (self._next + 1) % self._blocks
            data += bytes(READ_AHEAD_BYTES)
            if count:
                yield self._frames(data, count, first)

    def _frames(self, data: bytearray, count: int, first: int) -> Frames:
        headers = walk(data, count, first)
        buffer = np.frombuffer(data, np.uint8)
        if self._skip_outgoing:
            headers = headers[buffer[headers + _LINK_LAYER + 10] != _PACKET_OUTGOING]
        return frames_of_block(buffer, headers)

    def update_drops(self) -> int:
        """Return how many frames the kernel has dropped in all; reading resets its count."""
        raw = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12)
        self.drops += struct.unpack("III", raw)[1]
        return self.drops


def walk(data: bytearray, count: int, first: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where each frame's header begins in a block: a chain, so this one loop is not an array's."""
    words = memoryview(data)[: len(data) // 4 * 4].cast("I")
    headers = [first]
    append = headers.append
    position = first >> 2  # the kernel aligns headers to 16 bytes
    for _ in range(count - 1):
        position += words[position] >> 2
        append(position << 2)
    return np.array(headers, np.int64)


def frames_of_block(
    buffer: np.ndarray[tuple[int], np.dtype[np.uint8]], headers: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Frames:
    """Return the frames behind tpacket3_hdr's: sec, nsec, snaplen, len from 4, `mac` at 24."""
    words = np.ndarray(shape=(len(buffer) - 3,), dtype=np.uint32, buffer=buffer, strides=(1,))
    field = [words[headers + at].astype(np.int64) for at in (4, 8, 12, 16, 24)]
    return Frames(
        buffer=buffer,
        offsets=headers + (field[4] & 0xFFFF),
        captured_bytes=field[2],
        link_bytes=field[3],
        at_ns=field[0] * _NS + field[1],
    )
