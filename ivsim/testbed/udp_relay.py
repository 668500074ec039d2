"""A relay of UDP datagrams from the cloud's end of a link to a server outside: each as it is, when it comes.

`python -m ivsim.testbed.udp_relay NAMESPACE HOST PORT TARGET_HOST TARGET_PORT READY` does what `ivsim.testbed.relay` does for TCP.
Each address and port of a vehicle has a socket of its own towards the target, so that the target tells vehicles apart and its
answers find their way back. Beyond MAX_PEERS the one that has been silent for longest is closed. A datagram that the system does
not take is lost, as on any link, and the first such is said. It knows no protocol, and DTLS goes through it unread.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any, Final

from schemas.loop_commands import stop_on_signal
from schemas.namespace import inside
from schemas.outlet import ERR
from schemas.topics import MAX_VEHICLES

DATAGRAM_BYTES: Final = 65_535
DATAGRAMS_PER_WAKE: Final = 64
BUFFER_BYTES: Final = 8 << 20
MAX_PEERS: Final = MAX_VEHICLES


class UdpRelay:
    """The sockets of all vehicles, on one event loop.

    Args:
        near: bound where vehicles send to, non-blocking.
        family: of the target's address.
        target: the address.

    Attributes:
        lost: datagrams that the system did not take.
    """

    def __init__(self, near: socket.socket, family: int, target: Any) -> None:
        self.lost = 0
        self._near, self._family, self._target = near, family, target
        # That of the vehicle that has been silent for longest is first.
        self._far: dict[Any, socket.socket] = {}
        self._loop = asyncio.get_running_loop()

    def open(self) -> None:
        """Relay from now on."""
        self._loop.add_reader(self._near.fileno(), self._from_vehicles)

    def close(self) -> None:
        """Close every socket but the vehicles' own; idempotent."""
        self._loop.remove_reader(self._near.fileno())
        for far in self._far.values():
            self._close(far)
        self._far.clear()

    def _close(self, far: socket.socket) -> None:
        self._loop.remove_reader(far.fileno())
        far.close()

    def _from_vehicles(self) -> None:
        for _ in range(DATAGRAMS_PER_WAKE):
            try:
                datagram, vehicle = self._near.recvfrom(DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            try:
                far = self._far.pop(vehicle, None) or self._opened(vehicle)
                self._far[vehicle] = far
                far.send(datagram)
            except OSError as error:
                self._lose(error)

    def _opened(self, vehicle: Any) -> socket.socket:
        if len(self._far) >= MAX_PEERS:
            self._close(self._far.pop(next(iter(self._far))))
        far = socket.socket(self._family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            far.connect(self._target)
        except OSError:
            far.close()
            raise
        self._loop.add_reader(far.fileno(), self._from_target, far, vehicle)
        return far

    def _from_target(self, far: socket.socket, vehicle: Any) -> None:
        for _ in range(DATAGRAMS_PER_WAKE):
            try:
                datagram = far.recv(DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # of a datagram before: nobody listens at the target
                self._lose(error)
                return
            try:
                self._near.sendto(datagram, vehicle)
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        if not self.lost:
            ERR.write(f"relay: {self._target[0]}:{self._target[1]}: {error}\n", 0.0)
        self.lost += 1


async def _main(near: socket.socket, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop_on_signal(stop)
    family, _, _, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM))[0]
    relay = UdpRelay(near, family, address)
    relay.open()
    try:
        await stop.wait()
    finally:
        relay.close()


def main(arguments: list[str]) -> None:
    """Listen in the namespace, then relay until SIGTERM."""
    namespace, host, port, target_host, target_port, ready = arguments
    with inside(namespace):
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    with near:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        near.bind((host, int(port)))
        Path(ready).touch()
        asyncio.run(_main(near, target_host, int(target_port)))


if __name__ == "__main__":
    main(sys.argv[1:])
