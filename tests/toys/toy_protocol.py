"""A whole protocol in one file: datagrams of a kind, a vehicle id, a number and the payload. An example, and a test's."""

from __future__ import annotations

import asyncio
import struct
import time
from types import MappingProxyType
from typing import Any

from gateways.protocols.base import Endpoint, Look, Mode, Protocol, Word
from schemas.topics import vehicle_id

HEAD = struct.Struct("!c17sI")
MESSAGE, ACKNOWLEDGEMENT, SUBSCRIPTION = b"M", b"A", b"S"


class Socket(asyncio.DatagramProtocol):
    """One UDP socket that hands each datagram on, taken apart."""

    def __init__(self, took: Any) -> None:
        self._took = took
        self.transport: Any = None

    def datagram_received(self, data: bytes, address: Any) -> None:
        kind, identity, number = HEAD.unpack_from(data)
        self._took(kind, identity.decode(), number, data[HEAD.size :], address)

    async def open(self, **where: Any) -> None:
        self.transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, **where)

    def say(self, kind: bytes, identity: str, number: int, payload: bytes = b"", to: Any = None) -> None:
        if self.transport is not None:
            self.transport.sendto(HEAD.pack(kind, identity.encode(), number) + payload, to)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
        self.transport = None


class ToyVehicle:
    def __init__(self, endpoint: Endpoint, vehicle: int, mode: Mode, events: Any, settings: Any) -> None:
        self._endpoint, self._identity, self._events = endpoint, vehicle_id(vehicle), events
        self._acknowledged, self._settings = mode.acknowledged, settings
        self._flying: set[int] = set()
        self._socket = Socket(self._took)

    async def connect(self) -> None:
        await self._socket.open(remote_addr=(self._endpoint.host, self._endpoint.port))
        self._events.connected(time.time_ns(), False)

    async def close(self) -> None:
        self._socket.close()

    def ready(self) -> bool:
        return self._socket.transport is not None and len(self._flying) < self._settings.receive_max

    def send(self, token: int, payload: bytes) -> None:
        if self._acknowledged:
            self._flying.add(token)
        self._socket.say(MESSAGE, self._identity, token, payload)

    def in_flight(self) -> int:
        return len(self._flying)

    def _took(self, _kind: bytes, _identity: str, number: int, _payload: bytes, _address: Any) -> None:
        if number in self._flying:
            self._flying.discard(number)
            self._events.acknowledged(number, time.time_ns())


class ToyIntake:
    def __init__(self, endpoint: Endpoint, mode: Mode, sink: Any) -> None:
        self._endpoint, self._mode, self._sink = endpoint, mode, sink
        self._paused = False
        self._waiting: list[Any] = []
        self._socket = Socket(self._took)

    async def open(self) -> None:
        await self._socket.open(local_addr=(self._endpoint.host, self._endpoint.port))

    async def close(self) -> None:
        self._socket.close()

    def acknowledge(self, receipt: Any) -> None:
        identity, number, address = receipt
        if self._mode.acknowledged:
            self._socket.say(ACKNOWLEDGEMENT, identity, number, to=address)

    def invalid(self, receipt: Any) -> None: ...

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        for one in self._waiting:
            self._sink.take(*one)
        self._waiting.clear()

    def flush(self) -> None: ...

    def endpoint(self) -> tuple[str, int]:
        return self._socket.transport.get_extra_info("sockname")[:2]

    def counters(self) -> dict[str, int]:
        return {}

    def _took(self, _kind: bytes, identity: str, number: int, payload: bytes, address: Any) -> None:
        message = (identity, payload, time.time_ns(), False, (identity, number, address))
        if self._paused:
            self._waiting.append(message)
        else:
            self._sink.take(*message)


class ToyEcho(ToyIntake):
    def __init__(self, endpoint: Endpoint, mode: Mode) -> None:
        super().__init__(endpoint, mode, None)
        self._receivers: dict[str, Any] = {}

    def observers(self) -> int:
        return len(self._receivers)

    def _took(self, kind: bytes, identity: str, number: int, payload: bytes, address: Any) -> None:
        if kind == SUBSCRIPTION:
            self._receivers[identity] = address
        else:
            self.acknowledge((identity, number, address))
        self._socket.say(kind, identity, number, payload, self._receivers[identity])


class ToySubscriber:
    def __init__(self, endpoint: Endpoint, vehicle: int, events: Any) -> None:
        self._endpoint, self._identity, self._events = endpoint, vehicle_id(vehicle), events
        self._confirmed = asyncio.Event()
        self._socket = Socket(self._took)

    async def open(self) -> None:
        await self._socket.open(remote_addr=(self._endpoint.host, self._endpoint.port))
        self._socket.say(SUBSCRIPTION, self._identity, 0)
        await self._confirmed.wait()

    async def close(self) -> None:
        self._socket.close()

    def _took(self, kind: bytes, _identity: str, _number: int, payload: bytes, _address: Any) -> None:
        if kind == SUBSCRIPTION:
            self._confirmed.set()
        else:
            self._events.received(payload, time.time_ns(), False)


def _mode(name: str, *, answered: bool, look: Look | None = None) -> Mode:
    options = MappingProxyType({"answered": answered})
    return Mode(name, name, "at_most_once", acknowledged=answered, options=options, look=look)


class Toy(Protocol):
    name = "toy"
    label = "Toy"
    title = "Toy datagrams"
    default_mode = "asked"
    modes = MappingProxyType(
        {
            "asked": _mode("asked", answered=True, look=Look("#123456", "*")),
            "told": _mode("told", answered=False),
        }
    )
    words = MappingProxyType(
        {"answered": Word((True, False), "Acknowledged messages, or not.", "unanswered")}
    )
    settings = frozenset()
    ladder = ("told", "asked")
    line = "-."
    repeats = "protocol"
    packages = ()
    broker = None
    port = 7
    echo_ports = MappingProxyType({"asked": 7, "told": 7})

    def vehicle_client(self, endpoint, vehicle, mode, events, settings):
        return ToyVehicle(endpoint, vehicle, mode, events, settings)

    def intake(self, endpoint, mode, sink, settings):
        return ToyIntake(endpoint, mode, sink)

    def subscriber(self, endpoint, vehicle, mode, events, settings):
        return ToySubscriber(endpoint, vehicle, events)

    def echo_server(self, endpoint, mode):
        return ToyEcho(endpoint, mode)


class BrokeredToy(Toy):
    """The same with a broker that is not installed anywhere."""

    name = "toy-brokered"
    broker = "toy-broker"
    port = None
    echo_ports = MappingProxyType({})
    words = MappingProxyType({"answered": Word((True, False), "Confirmed messages, or not.", "unanswered")})
