"""A storm: 500 vehicles whose connections all break at one instant, and who all come back at once, by protocol and security.

The vehicles' own clients and a real broker, over loopback: what is measured is the price of a handshake, full or
resumed, and not the link's. Twice: after an outage, of which broker and vehicles remember their sessions, and after the
broker was killed, which forgets the keys of its tickets. In a run vehicles wait at random before they come back (backoff)
and at most 200 of a process connect at once; here none waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import struct
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import psutil

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.ends import VehicleClient, VehicleEvents
from gateways.protocols.tls import tls_context
from ivsim.testbed.credentials import PLAIN, Credentials, make_credentials
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.servers import SERVERS
from schemas.topics import vehicle_id

VEHICLES: Final = 500
WAIT_S: Final = 120.0
HOST: Final = "127.0.0.1"
# Offsets in Linux' struct tcp_info (include/uapi/linux/tcp.h): what came in, and what went out, repetitions included.
_BYTES_RECEIVED, _BYTES_SENT, _TCP_INFO_BYTES = 128, 200, 208
HEAD: Final = (
    f"{'':<5}{'security':<9}{'vehicles':<15}{'back, s':>8}{'full':>6}{'resumed':>9}{'up, B':>8}{'down, B':>9}"
    f"{'broker, ms':>12}{'vehicle, ms':>13}"
)


class Lost:
    """Notes of one vehicle that its connection is gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def disconnected(self, at_ns: int, reason: str) -> None:
        del at_ns, reason
        self.gone.set()

    def connected(self, at_ns: int, session_present: bool) -> None: ...
    def writable(self) -> None: ...


class Sums(NamedTuple):
    """What has been used up so far, in s of processor time and in handshakes."""

    broker_s: float
    vehicles_s: float
    handshakes: int
    resumed: int


class Storm:
    """A broker and its vehicles."""

    def __init__(self, protocol: str, security: str, broker: Any, credentials: Credentials) -> None:
        self._what = f"{protocol:<5}{security:<9}"
        self._broker = broker
        tls = credentials.tls()
        self._context = None if tls is None else tls_context(tls)
        row = PROTOCOLS[protocol]
        self._lost = [Lost() for _ in range(VEHICLES)]
        self._clients: list[VehicleClient] = []
        for number, lost in enumerate(self._lost, 1):
            name = vehicle_id(number) if credentials.passwords else None
            word = credentials.passwords.get(vehicle_id(number))
            endpoint = Endpoint(broker.host, broker.port, tls, name, word)
            mode, events = row.modes[row.default_mode], cast("VehicleEvents", lost)
            settings = VehicleSettings(connect_timeout_s=WAIT_S)
            self._clients.append(row.vehicle_client(endpoint, number, mode, events, settings))

    async def run(self) -> None:
        """Connect all, break all, break all with the broker; a line of each."""
        try:
            await self._come("begin")
            await self._break(self._outage)
            await self._come("outage")
            await self._break(self._kill)
            await self._come("broker killed")
        finally:
            await asyncio.gather(*(client.close() for client in self._clients))

    async def _break(self, how: Callable[[], None]) -> None:
        """Return once each vehicle knows that its connection is gone."""
        for lost in self._lost:
            lost.gone.clear()
        how()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(lost.gone.wait() for lost in self._lost))

    async def _come(self, name: str) -> None:
        before, began_s = self._sums(), time.monotonic()
        await asyncio.gather(*(client.connect() for client in self._clients))
        took_s = time.monotonic() - began_s
        after = self._sums()
        used = Sums(*(now - then for now, then in zip(after, before, strict=True)))
        received, sent = zip(*(counted(one) for one in self._sockets()), strict=True)
        assert len(sent) == VEHICLES
        print(
            f"{self._what}{name:<15}{took_s:>8.2f}{used.handshakes - used.resumed:>6}{used.resumed:>9}"
            f"{sum(sent) / VEHICLES:>8,.0f}{sum(received) / VEHICLES:>9,.0f}"
            f"{used.broker_s / VEHICLES * 1e3:>12.2f}{used.vehicles_s / VEHICLES * 1e3:>13.2f}",
            flush=True,
        )

    def _outage(self) -> None:
        for one in self._sockets():
            one.shutdown(socket.SHUT_RDWR)

    def _kill(self) -> None:
        self._broker.process.kill()
        self._broker.restart()

    def _sums(self) -> Sums:
        stats = {} if self._context is None else self._context.session_stats()
        return Sums(
            processor_s(self._broker.process.pid),
            time.process_time(),
            stats.get("connect_good", 0),
            stats.get("hits", 0),
        )

    def _sockets(self) -> Iterator[socket.socket]:
        """Yield this process's connections to the broker, each for as long as it is looked at."""
        for path in Path("/proc/self/fd").iterdir():
            if path.is_socket():
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as one:
                    if one.getpeername() == (self._broker.host, self._broker.port):
                        yield one


def counted(one: socket.socket) -> tuple[int, int]:
    """Return the bytes that a connection has received and sent."""
    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return struct.unpack_from("=Q", told, _BYTES_RECEIVED)[0], struct.unpack_from("=Q", told, _BYTES_SENT)[0]


def processor_s(pid: int) -> float:
    """Return the processor time of a server and its children."""
    broker = psutil.Process(pid)
    times = [one.cpu_times() for one in (broker, *broker.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def measure(protocol: str, security: str) -> None:
    kind = SERVERS[str(PROTOCOLS[protocol].broker)]
    with tempfile.TemporaryDirectory() as base, RunRecord(f"s{uuid.uuid4().hex[:8]}", Path(base)) as record:
        credentials = PLAIN
        if security != "plain":
            credentials = make_credentials(Path(base) / "keys", VEHICLES, security, HOST)
        with kind.open(record, host=HOST, security=credentials.security) as broker:

            async def storm() -> None:
                await Storm(protocol, security, broker, credentials).run()

            asyncio.run(storm())


def main() -> None:
    """Print a line for each time that all vehicles come."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (hard, hard)
    )  # an open file a connection; the brokers inherit it
    for name in ("mosquitto", "rabbitmq"):
        print(f"{name} {SERVERS[name].version()}")
    print(
        f"{VEHICLES} vehicles in one process, over loopback; bytes and processor time are of one vehicle's coming"
    )
    print("bytes: of TCP's payload, up to the broker's acceptance")
    print(HEAD)
    for protocol in ("mqtt", "amqp"):
        for security in ("plain", "tls"):
            measure(protocol, security)


if __name__ == "__main__":
    main()
