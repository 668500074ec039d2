"""The gateway's counters as a Prometheus page on a local port, and its health beside them; it counts nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateways.counters import MEANINGS
from gateways.health import Verdict

GAUGES = frozenset({"connected", "held", "held_bytes", "paused"})
_REQUEST_TIMEOUT_S = 5.0
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class _Snapshot(Collector):
    """The numbers of one moment."""

    def __init__(
        self, values: Mapping[str, int], gauges: AbstractSet[str], labels: Mapping[str, str]
    ) -> None:
        self._values, self._gauges, self._labels = values, gauges, labels

    def collect(self) -> Iterator[Metric]:
        for name, value in self._values.items():
            kind = GaugeMetricFamily if name in self._gauges else CounterMetricFamily
            meaning = MEANINGS.get(name, f"{name.replace('_', ' ')}, by the protocol's own end")
            family = kind(f"ivsim_gateway_{name}", meaning, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family


def page(values: Mapping[str, int], gauges: AbstractSet[str], labels: Mapping[str, str]) -> bytes:
    """Return the text exposition format, version 0.0.4: `gauges` as they are, every other value as a counter."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(values, gauges, labels))
    return generate_latest(registry)


def listening_socket(port: int) -> socket.socket:
    """Bind 127.0.0.1 now; a socket stays in the network namespace in which it was made."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(8)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def serve(
    sock: socket.socket, text: Callable[[], bytes], health: Callable[[], Verdict]
) -> asyncio.Server:
    """Answer `/health` on `sock` with `health()`, every other request with `text()`; the caller closes the server.

    On the event loop, since the counters are the loop's; prometheus_client's own server asks from a thread.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError, ValueError):
            asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_TIMEOUT_S)
            target = asked.split(b" ", 2)[1:2]
            healthy = target == [b"/health"]
            writer.write(_health_answer(health()) if healthy else _answer("200 OK", _EXPOSITION, text()))
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    return await asyncio.start_server(answer, sock=sock)


def _health_answer(verdict: Verdict) -> bytes:
    """Return 200, or 503 with what is wrong, as probes of orchestrators read it."""
    body = json.dumps({"healthy": verdict.healthy, "problems": verdict.problems}).encode()
    return _answer("200 OK" if verdict.healthy else "503 Service Unavailable", "application/json", body)


def _answer(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
