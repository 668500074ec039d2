"""What the kernel knows of this process's own TCP connections: their round trips and what they sent again.

Layout of `struct tcp_info`: include/uapi/linux/tcp.h of Linux 4.19 and newer, which only ever appends to it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gateways.batching.observation import LinkState

_OWN_DESCRIPTORS = Path("/proc/self/fd")
_BYTES = 256
_U32 = struct.Struct("=I")
# Offsets in bytes.
_SND_MSS, _RTT_US, _TOTAL_RETRANS, _DATA_SEGS_OUT, _DSACK_DUPS = 16, 68, 100, 156, 216
_CC_BYTES = 16

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TcpReading:
    """One connection at one moment; counts are since it was made.

    Attributes:
        rtt_ms: smoothed.
        segment_bytes: TCP's payload in a full packet.
        sent: segments with payload, repeated ones included.
        repeated: segments sent again.
        needless: of these, those that the peer says it had already (DSACK); 0 from a kernel that does not count them.
        congestion_control: its algorithm.
    """

    rtt_ms: float
    segment_bytes: int
    sent: int
    repeated: int
    needless: int
    congestion_control: str

    @classmethod
    def parsed(cls, content: bytes, congestion_control: str) -> Self:
        """Return what `struct tcp_info` says; ValueError from a kernel whose structure ends before DATA_SEGS_OUT."""
        if len(content) < _DATA_SEGS_OUT + _U32.size:
            raise ValueError(f"struct tcp_info of {len(content)} bytes: Linux 4.6 or newer has more")

        def field(offset: int) -> int:
            return int(_U32.unpack_from(content, offset)[0]) if offset + _U32.size <= len(content) else 0

        return cls(
            field(_RTT_US) / 1e3,
            field(_SND_MSS),
            field(_DATA_SEGS_OUT),
            field(_TOTAL_RETRANS),
            field(_DSACK_DUPS),
            congestion_control,
        )


def readings(peer_ports: Collection[int]) -> dict[Address, TcpReading]:
    """Return this process's connections to these ports, by their own address; one that ends meanwhile is left out."""
    found = {}
    for entry in _OWN_DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed, or not connected
            if not entry.is_socket():
                continue
            # Of a library's own socket a copy is asked, which shares the connection and is closed again.
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                if _is_tcp(copy) and copy.getpeername()[1] in peer_ports:
                    content = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES)
                    algorithm = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _CC_BYTES)
                    name = algorithm.partition(b"\0")[0].decode()
                    found[copy.getsockname()[:2]] = TcpReading.parsed(content, name)
    return found


def _is_tcp(connection: socket.socket) -> bool:
    inet = connection.family in {socket.AF_INET, socket.AF_INET6}
    return inet and connection.type == socket.SOCK_STREAM


def link_between(before: Mapping[Address, TcpReading], now: Mapping[Address, TcpReading]) -> LinkState:
    """Return what the connections of now say of the time since; one that is new counts from its beginning.

    The loss is what was repeated and needed of what was sent; the round trip, segment and algorithm are those of the
    connection that sent most. All None where nothing was sent: an idle connection knows of a link that was.
    """
    since = {address: _since(before.get(address), reading) for address, reading in now.items()}
    sent = sum(reading.sent for reading in since.values())
    if sent <= 0:
        return LinkState()
    needed = sum(reading.repeated - reading.needless for reading in since.values())
    busiest = max(since.values(), key=lambda reading: reading.sent)
    return LinkState(
        rtt_ms=busiest.rtt_ms,
        loss_ratio=min(max(needed / sent, 0.0), 1.0),
        segment_bytes=busiest.segment_bytes,
        congestion_control=busiest.congestion_control,
    )


def _since(before: TcpReading | None, now: TcpReading) -> TcpReading:
    # Counts below those of before are of another connection from the same port.
    if before is None or now.sent < before.sent or now.repeated < before.repeated:
        return now
    return TcpReading(
        now.rtt_ms,
        now.segment_bytes,
        now.sent - before.sent,
        now.repeated - before.repeated,
        now.needless - before.needless,
        now.congestion_control,
    )
