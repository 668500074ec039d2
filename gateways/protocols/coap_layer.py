"""CoAP's message layer over one UDP socket of its own: aiocoap's, with a bounded memory; it knows no request.

aiocoap retransmits, acknowledges and piggybacks (RFC 7252, 4). Three things differ from its `Context`: a
socket bound to a given address per endpoint, several datagrams per wake-up of the loop, and a record of
answered Message IDs that keeps encoded answers in slices of time instead of a timer per message (247 s at
1,500 requests/s are 370,000 of them).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from aiocoap import Message, interfaces
from aiocoap.messagemanager import MessageManager
from aiocoap.numbers.codes import EMPTY
from aiocoap.numbers.types import ACK, CON, RST

from gateways.protocols.base import ConnectError
from gateways.protocols.coap_wire import Remote, decoded

EXCHANGE_LIFETIME_S: Final = 247.0  # RFC 7252, 4.8.2, default transmission parameters
MAX_DATAGRAM_BYTES: Final = 65_535
_DATAGRAMS_PER_WAKE: Final = 64
_SERVER_BUFFER_BYTES: Final = 8 << 20
# Python's socket module does not name it; a test's ordinary user falls back to SO_RCVBUF.
_SO_RCVBUFFORCE: Final = 33


class Upper:
    """What the message layer asks of the layer above it; here, an endpoint that serves and awaits nothing."""

    # aiocoap warns of what a strange peer sends, line by line; here the counters do.
    log = logging.getLogger("ivsim.coap")
    log.setLevel(logging.ERROR)
    loop: asyncio.AbstractEventLoop

    def process_request(self, request: Message) -> None:
        """Take a request that is no duplicate."""

    def process_response(self, response: Message) -> bool:
        """Take a response; False when nobody waits for it, and a confirmable one is then reset."""
        del response
        return False

    def dispatch_error(self, error: Exception, remote: Remote) -> None:
        """The exchange with `remote` has failed (retransmissions used up)."""

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        """The peer has acknowledged and will answer later (RFC 7252, 5.2.2)."""

    def exchange_over(self, remote: Remote) -> None:
        """The confirmable exchange with `remote` has ended, whichever way."""

    def newer(self, message: Message) -> Message | None:
        """Return what shall go out in place of a retransmission of `message` (RFC 7641, 4.5.2), or None."""
        del message
        return None


class RecentAnswers:
    """Message IDs seen from each remote during the last EXCHANGE_LIFETIME, with the answer they got."""

    def __init__(
        self, slices: int = 8, limit: int = 1_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slice_s = EXCHANGE_LIFETIME_S / slices
        self._slices: list[dict[tuple[str, int], dict[int, bytes]]] = [{}]
        self._counts = [0]
        self._kept = slices + 1
        self._limit = limit
        self._clock = clock
        self._turn_at = clock() + self._slice_s

    def __len__(self) -> int:
        return sum(self._counts)

    def find(self, remote: tuple[str, int], message_id: int) -> bytes | None:
        """Return the answer (empty: none yet) to a Message ID seen before; None for a new one."""
        for part in self._slices:
            answers = part.get(remote)
            if answers is not None and message_id in answers:
                return answers[message_id]
        return None

    def keep(self, remote: tuple[str, int], message_id: int, answer: bytes) -> None:
        """Remember `answer`; the oldest slice goes when its time is over or there are too many entries."""
        now = self._clock()
        full = len(self) >= self._limit
        if now >= self._turn_at or full:
            self._slices.insert(0, {})
            self._counts.insert(0, 0)
            kept = min(self._kept, len(self._slices) - 1) if full else self._kept
            del self._slices[kept:], self._counts[kept:]
            self._turn_at = now + self._slice_s
        self._counts[0] += 1
        self._slices[0].setdefault(remote, {})[message_id] = answer

    def answer(self, remote: tuple[str, int], message_id: int, answer: bytes) -> None:
        """Set the answer of a Message ID seen before; nothing for one that is not known."""
        for part in self._slices:
            answers = part.get(remote)
            if answers is not None and message_id in answers:
                answers[message_id] = answer
                return


class MessageLayer(MessageManager, interfaces.MessageInterface):  # type: ignore[misc]
    """One CoAP endpoint: a socket, Message IDs, retransmission, duplicates.

    Attributes:
        duplicates: requests that came again under the same Message ID.
        malformed: datagrams that are no CoAP.
        unsent: datagrams the system did not take (no route, full buffer): lost, as on any link.
    """

    def __init__(self, upper: Upper) -> None:
        super().__init__(upper)
        self.message_interface = self
        self.duplicates = 0
        self.malformed = 0
        self.unsent = 0
        self._upper = upper
        self._recent = RecentAnswers()
        self._socket: socket.socket | None = None

    def open(
        self, host: str, port: int, *, reuse_port: bool = False, server: bool = False
    ) -> tuple[str, int]:
        """Bind to (host, port), port 0 for any; return what the system gave. Raises ConnectError."""
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            raise ConnectError(f"CoAP socket: {error}") from error
        try:
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if server:
                _grow_receive_buffer(sock)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            raise ConnectError(f"CoAP socket on {host}:{port}: {error}") from error
        self._socket = sock
        self.loop.add_reader(sock.fileno(), self._readable)
        bound: tuple[str, int] = sock.getsockname()
        return bound

    def close(self) -> None:
        """Cancel every timer and close the socket; idempotent."""
        if self._socket is None:
            return
        for _monitor, timer in self._active_exchanges.values():
            timer.cancel()
        for _mid, timer in self._piggyback_opportunities.values():
            timer.cancel()
        self._active_exchanges.clear()
        self._piggyback_opportunities.clear()
        self._backlogs.clear()
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None

    def remembered(self) -> int:
        """Return how many Message IDs are kept to find duplicates."""
        return len(self._recent)

    def busy(self, remote: Remote) -> bool:
        """Say whether a confirmable exchange with `remote` is open (NSTART = 1, RFC 7252, 4.7)."""
        return remote in self._backlogs

    def forget(self, remote: Remote) -> None:
        """Give up the exchange with `remote`: no more retransmissions."""
        for key in [key for key in self._active_exchanges if key[0] == remote]:
            self._active_exchanges.pop(key)[1].cancel()
        self._backlogs.pop(remote, None)

    def _readable(self) -> None:
        for _ in range(_DATAGRAMS_PER_WAKE):
            if self._socket is None:
                return
            try:
                datagram, address = self._socket.recvfrom(MAX_DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # Errors of an unconnected socket belong to no message; retransmission repairs the loss.
                continue
            self.receive(datagram, Remote(address))

    def receive(self, datagram: bytes, remote: Remote) -> None:
        """Dispatch one datagram; a malformed one is counted and, if confirmable, reset (RFC 7252, 4.2)."""
        message = decoded(datagram, remote)
        if message is None:
            self.malformed += 1
            if len(datagram) >= 4 and datagram[0] >> 4 == 0b0100:
                self._transmit(bytes((0x70, 0)) + datagram[2:4], remote)
            return
        self.dispatch_message(message)

    def send(self, message: Message) -> None:
        """Implement aiocoap's MessageInterface: put an encoded message on the wire."""
        self._transmit(message.encode(), message.remote)

    def _transmit(self, datagram: bytes, remote: tuple[str, int]) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(datagram, remote)
        except OSError:
            self.unsent += 1

    # What follows replaces parts of aiocoap 0.4.17's MessageManager, which is pinned for it.

    def _deduplicate_message(self, message: Message) -> bool:
        """Answer a duplicate as before and say True (RFC 7252, 4.5): count it, never take it again."""
        known = self._recent.find(message.remote, message.mid)
        if known is None:
            self._recent.keep(message.remote, message.mid, b"")
            return False
        self.duplicates += 1
        if known and message.mtype is CON:
            self._transmit(known, message.remote)
        return True

    def _send_initially(
        self, message: Message, messageerror_monitor: Callable[[], None] | None = None
    ) -> None:
        if message.mtype is CON:
            self._add_exchange(message, messageerror_monitor)
        datagram = message.encode()
        if message.mtype is ACK or message.mtype is RST:
            self._recent.answer(message.remote, message.mid, datagram)
        self._transmit(datagram, message.remote)

    def _remove_exchange(self, message: Message) -> None:
        known = (message.remote, message.mid) in self._active_exchanges
        super()._remove_exchange(message)
        if known and message.code is EMPTY and message.mtype is ACK:
            self._upper.acknowledged_empty(message.remote, message.mid)

    def _continue_backlog(self, remote: Remote) -> None:
        super()._continue_backlog(remote)
        self._upper.exchange_over(remote)

    def _retransmit(self, message: Message, timeout: float, retransmission_counter: int) -> None:
        newer = self._upper.newer(message)
        if newer is not None:
            newer.mtype, newer.mid = CON, self._next_message_id()
            self._active_exchanges[newer.remote, newer.mid] = self._active_exchanges.pop(
                (message.remote, message.mid)
            )
        super()._retransmit(newer or message, timeout, retransmission_counter)

    async def shutdown(self) -> None:
        self.close()

    async def recognize_remote(self, remote: Any) -> bool:
        return isinstance(remote, Remote)

    async def determine_remote(self, message: Message) -> Remote | None:
        remote = message.remote
        return remote if isinstance(remote, Remote) else None


def _grow_receive_buffer(sock: socket.socket) -> None:
    """A burst of every vehicle at once must fit while the loop is elsewhere."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SERVER_BUFFER_BYTES)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _SERVER_BUFFER_BYTES)
