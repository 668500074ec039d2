"""CoAP's message layer on a UDP socket and the event loop's clock: the only place of CoAP that does I/O."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol

from aiocoap import Message

from gateways.protocols.coap.datagram import Remote, family_of
from gateways.protocols.coap.message_layer import Exchange, MessageLayer, Upper
from gateways.protocols.coap.parameters import PARAMETERS
from gateways.protocols.ends import ConnectError

MAX_DATAGRAM_BYTES: Final = 65_535
_DATAGRAMS_PER_WAKE: Final = 64
_SERVER_BUFFER_BYTES: Final = 8 << 20
# Python's socket module does not name these two; a test's ordinary user falls back to SO_RCVBUF.
_SO_RCVBUFFORCE: Final = 33
_IP_MTU: Final = 14
_SO_MEMINFO: Final = 55
_MEMINFO: Final = struct.Struct("=9I")  # linux/sock_diag.h


class Dtls(Protocol):
    """What protects the datagrams of a socket."""

    transmit: Callable[[bytes, tuple[str, int]], None]

    def outgoing(self, datagram: bytes, remote: tuple[str, int]) -> None:
        """Send a datagram by `transmit`, now or later."""

    def incoming(self, datagram: bytes, remote: Remote) -> list[bytes]:
        """Return what is inside one that came."""

    def close(self) -> None:
        """Forget every association; idempotent."""


class UdpEndpoint:
    """One socket bound to a given address, and the message layer over it; the running loop serves both.

    Attributes:
        layer: the rules; `layer.transmit` may be replaced by a test that loses datagrams.
        unsent: datagrams that the system did not take.
    """

    _dropped = 0

    def __init__(self, upper: Upper, *, server: bool = False, dtls: Dtls | None = None) -> None:
        self.unsent = 0
        self._upper = upper
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.layer = MessageLayer(
            upper, self._transmit, parameters=PARAMETERS, server=server, clock=self._loop.time
        )
        self._dtls = dtls
        if dtls is not None:
            dtls.transmit = self._send_datagram
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, host: str, port: int, *, reuse_port: bool = False) -> tuple[str, int]:
        """Bind to (host, port), port 0 for any; return what the system gave. Raises ConnectError.

        An IPv6 socket takes IPv4, too, from addresses such as ::ffff:192.0.2.1 (RFC 4291, 2.5.5.2).
        """
        try:
            sock = socket.socket(family_of(host), socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            raise ConnectError(f"CoAP socket: {error}") from error
        try:
            if sock.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if self._server:
                _grow_receive_buffer(sock)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            raise ConnectError(f"CoAP socket on {host}:{port}: {error}") from error
        self._socket = sock
        self._loop.add_reader(sock.fileno(), self._readable)
        bound = sock.getsockname()
        return bound[0], bound[1]

    def dropped(self) -> int:
        """Return how many datagrams found the socket's buffer full: the kernel dropped them, and nobody here saw them."""
        return self._dropped if self._socket is None else _kernel_drops(self._socket)

    def close(self) -> None:
        """Cancel the timer and close the socket, the associations before it; idempotent."""
        self._dropped = self.dropped()
        if self._dtls is not None:
            self._dtls.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    # The layer's calls, with the loop's time.

    def send(
        self, message: Message, *, confirmable: bool, reset: Callable[[], None] | None = None
    ) -> Exchange | None:
        """Send a message under a new Message ID; see MessageLayer.send."""
        exchange = self.layer.send(message, self._loop.time(), confirmable=confirmable, reset=reset)
        self._arm()
        return exchange

    def repeat(self, exchange: Exchange) -> Exchange:
        """Send a confirmable message once more under its own Message ID; see MessageLayer.repeat."""
        again = self.layer.repeat(exchange, self._loop.time())
        self._arm()
        return again

    def respond(self, request: Message, response: Message) -> None:
        """Answer a request; see MessageLayer.respond."""
        self.layer.respond(request, response, self._loop.time())
        self._arm()

    def receive(self, datagram: bytes, remote: Remote) -> None:
        """Take one datagram as if it had come from the socket."""
        self.layer.receive(datagram, remote, self._loop.time())
        self._arm()

    def _readable(self) -> None:
        receive, now = self.layer.receive, self._loop.time
        for _ in range(_DATAGRAMS_PER_WAKE):
            if self._socket is None:
                return
            try:
                datagram, address = self._socket.recvfrom(MAX_DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # Errors of an unconnected socket belong to no message; retransmission repairs the loss.
                continue
            remote = Remote(address[:2])  # IPv6 has flow and scope behind
            if self._dtls is None:
                receive(datagram, remote, now())
                continue
            for inner in self._dtls.incoming(datagram, remote):
                receive(inner, remote, now())
        self._arm()

    def _transmit(self, datagram: bytes, remote: tuple[str, int]) -> None:
        if self._dtls is None:
            self._send_datagram(datagram, remote)
        elif self._socket is not None:
            self._dtls.outgoing(datagram, remote)

    def _send_datagram(self, datagram: bytes, remote: tuple[str, int]) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(datagram, remote)
        except OSError:
            self.unsent += 1
            self._upper.datagram_unsent()

    def _arm(self) -> None:
        """Have `expire` called in time; a timer that comes too early arms itself anew."""
        deadline_s = self.layer.next_deadline_s()
        if deadline_s is None or self._socket is None:
            return
        if self._timer is not None:
            if self._timer.when() <= deadline_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        # The loop may call a hair early (its clock's resolution): what is due within a millisecond is due.
        self.layer.expire(self._loop.time() + 0.001)
        self._arm()


def path_mtu_bytes(source_host: str, remote: Remote) -> int:
    """Return the largest IP packet that the system sends to `remote` in one piece (RFC 7252, 4.6).

    Raises ConnectError when there is no way to it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((source_host, 0))
            probe.connect(remote)
            return probe.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        except OSError as error:
            raise ConnectError(f"CoAP path MTU to {remote.hostinfo}: {error}") from error


def _grow_receive_buffer(sock: socket.socket) -> None:
    """A burst of every vehicle at once must fit while the loop is elsewhere."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SERVER_BUFFER_BYTES)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _SERVER_BUFFER_BYTES)


def _kernel_drops(sock: socket.socket) -> int:
    """Return how many datagrams the kernel has dropped in front of the socket (SO_MEMINFO, SK_MEMINFO_DROPS)."""
    drops: int = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1]
    return drops
