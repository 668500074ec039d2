"""A gateway and vehicles on loopback, with a bridge that the test plays itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Callable

import pytest

from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.coap import udp, vehicle
from gateways.protocols.coap.parameters import PARAMETERS
from gateways.protocols.coap.protocol import Coap

TIMEOUT_S = 20.0


class Sink:
    """Stands for the bridge: notes what it is given and acknowledges it, unless `hold` is set."""

    def __init__(self):
        self.taken = []
        self.content_types = []
        self.strays = []
        self.hold = False
        self.invalid = ()
        self.receipts = []
        self.intake = None

    def take(self, vehicle_id, payload, received_at_ns, duplicate, receipt, content_type=""):
        self.taken.append((vehicle_id, payload))
        self.content_types.append(content_type)
        if payload in self.invalid:
            self.intake.invalid(receipt)
        self._settle(receipt)

    def misaddressed(self, address, payload, received_at_ns, receipt, reason):
        self.strays.append((address, payload, reason))
        self._settle(receipt)

    def turned_away(self, reason): ...

    def link(self, up, reason):
        pass

    def _settle(self, receipt):
        if self.hold:
            self.receipts.append(receipt)
        else:
            self.intake.acknowledge(receipt)


class Events:
    """Stands for the sender, at both of a vehicle's ends."""

    def __init__(self):
        self.acked = []
        self.gone = []
        self.later = []
        self.silent = []
        self.echoes = []
        self.connections = 0
        self._changed = asyncio.Event()

    def acknowledged(self, token, at_ns):
        self.acked.append(token)
        self._changed.set()

    def refused(self, token, reason):
        self.gone.append((token, reason))
        self._changed.set()

    def postponed(self, token, reason):
        self.later.append((token, reason))
        self._changed.set()

    def unanswered(self, token, reason):
        self.silent.append((token, reason))
        self._changed.set()

    def connected(self, at_ns, session_present):
        self.connections += 1

    def disconnected(self, at_ns, reason):
        raise AssertionError("UDP has no connection to lose")

    def writable(self):
        self._changed.set()

    def received(self, payload, at_ns, duplicate):
        self.echoes.append((payload, duplicate))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]):
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Wire:
    """What lies between one vehicle and a gateway: shows each datagram, and may lose, keep or add some.

    Attributes:
        port: where the vehicle finds the gateway.
        up, down: datagrams that came from the vehicle, and from the gateway, those that were lost included.
        lets_up, lets_down: whether a datagram goes on.
    """

    def __init__(self, gateway_port):
        self.up, self.down = [], []
        self.lets_up = self.lets_down = lambda datagram: True
        self._gateway = ("127.0.0.1", gateway_port)
        self._vehicle = None
        self._changed = asyncio.Event()
        self._near, self._far = self._socket(self._from_vehicle), self._socket(self._from_gateway)
        self.port = self._near.getsockname()[1]

    def to_gateway(self, datagram):
        """Send as if the vehicle had."""
        self._far.sendto(datagram, self._gateway)

    def to_vehicle(self, datagram):
        """Send as if the gateway had."""
        self._near.sendto(datagram, self._vehicle)

    async def until(self, condition: Callable[[], bool]):
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def close(self):
        for sock in (self._near, self._far):
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()

    @staticmethod
    def _socket(reader):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        sock.bind(("127.0.0.1", 0))
        asyncio.get_running_loop().add_reader(sock, reader, sock)
        return sock

    def _from_vehicle(self, sock):
        datagram, self._vehicle = sock.recvfrom(65_535)
        self.up.append(datagram)
        self._changed.set()
        if self.lets_up(datagram):
            self.to_gateway(datagram)

    def _from_gateway(self, sock):
        datagram = sock.recv(65_535)
        self.down.append(datagram)
        self._changed.set()
        if self.lets_down(datagram):
            self.to_vehicle(datagram)


class Bench:
    """Opens gateways and vehicles and closes them all in the end."""

    def __init__(self, stack):
        self.protocol = Coap()
        self._stack = stack

    async def gateway(self, *, host="127.0.0.1", port=0, keys=None, **settings):
        sink = Sink()
        intake = self.protocol.intake(
            Endpoint(host, port, keys=keys),
            self.protocol.modes["con"],
            sink,
            IntakeSettings(**settings),
        )
        sink.intake = intake
        await intake.open()
        self._stack.push_async_callback(intake.close)
        return intake, sink

    def wire(self, intake):
        wire = Wire(intake.endpoint()[1])
        self._stack.callback(wire.close)
        return wire

    async def vehicle(self, port, *, mode="con", number=1, keys=None, **settings):
        events = Events()
        client = self.protocol.vehicle_client(
            Endpoint("127.0.0.1", port, keys=keys),
            number,
            self.protocol.modes[mode],
            events,
            VehicleSettings(**settings),
        )
        await client.connect()
        self._stack.push_async_callback(client.close)
        return client, events


@pytest.fixture
async def coap():
    async with contextlib.AsyncExitStack() as stack:
        yield Bench(stack)


@pytest.fixture
def faster(monkeypatch):
    """Change the transmission parameters of every endpoint that the test opens from now on."""

    def change(**parameters):
        changed = dataclasses.replace(PARAMETERS, **{"ack_timeout_s": 0.02, **parameters})
        monkeypatch.setattr(udp, "PARAMETERS", changed)
        monkeypatch.setattr(vehicle, "PARAMETERS", changed)
        return changed

    return change


@pytest.fixture
def quick(faster):
    """CoAP's timers a hundredfold faster: nothing else about retransmission changes."""
    return faster()
