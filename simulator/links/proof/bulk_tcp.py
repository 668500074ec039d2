"""A bulk TCP transfer through an open link, and the rate at which it came; it judges nothing."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from typing import Final

from schemas.topics import CLOUD_ADDRESS, end_address
from simulator.links.base import Direction, Link
from simulator.links.namespaces import inside

_BYTES_RECEIVED: Final = 128  # tcpi_bytes_received in tcp_info (linux/tcp.h)


def tcp_rate_bps(
    link: Link, vehicle: int, direction: Direction, seconds: float, skipped: float = 0.25
) -> float:
    """Return the rate of a bulk TCP transfer in bits of payload per second, after the `skipped` share of it.

    Where segments are lost, skip nothing: TCP counts what waits behind a lost one when that comes again, and all
    of it may have crossed the link before a later begin.
    """
    with contextlib.ExitStack() as stack:
        with inside(link.cloud_namespace):
            server = stack.enter_context(socket.create_server((CLOUD_ADDRESS, 0)))
        with inside(link.vehicles_namespace):
            near = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        near.settimeout(seconds + 10)
        server.settimeout(seconds + 10)
        near.bind((end_address(vehicle), 0))
        near.connect(server.getsockname())
        far = stack.enter_context(server.accept()[0])
        far.settimeout(seconds + 10)
        source, sink = (near, far) if direction == "uplink" else (far, near)
        sender = threading.Thread(target=_pour, args=(source, seconds), daemon=True)
        sender.start()
        rate = received_bps(sink, seconds, skipped)
        sender.join()
    return rate


def received_bps(sink: socket.socket, seconds: float, skipped: float) -> float:
    """Return the bits per second that came to a TCP socket between the end of the skipped share and the end.

    The interval is that long whether or not anything comes: counted from the first segment after the skipped share, a
    transfer that loss had stopped until shortly before the end would show the rate of its last burst.
    """
    began_s = time.monotonic()
    _swallow(sink, began_s + seconds * skipped)
    first = _arrived(sink)
    _swallow(sink, began_s + seconds)
    last = _arrived(sink)
    return (last[1] - first[1]) * 8 / (last[0] - first[0])


def _pour(source: socket.socket, seconds: float) -> None:
    block, end_s = b"\0" * 65536, time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while time.monotonic() < end_s:
            source.send(block)


def _swallow(sink: socket.socket, until_s: float) -> None:
    """Read what comes until then; a peer that has ended leaves the rest of the time to nothing."""
    while (left_s := until_s - time.monotonic()) > 0:
        if select.select([sink], [], [], left_s)[0] and not sink.recv(1 << 20):
            time.sleep(max(0.0, until_s - time.monotonic()))


def _arrived(sink: socket.socket) -> tuple[float, int]:
    """Return the time and the kernel's count: what has been read tells how late the reader is."""
    info = sink.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED + 8)
    return time.monotonic(), struct.unpack_from("=Q", info, _BYTES_RECEIVED)[0]
