"""CoAP's message layer (RFC 7252, 4): Message IDs, acknowledgements, retransmission, duplicates; it does no I/O.

The problem. A gateway answers thousands of vehicles from one socket, and each vehicle has a socket, an address
and Message IDs of its own. aiocoap's `Context` does all that this layer does, but as a server it keeps a timer
of 247 s for every request, and as a client it costs a task and two deep copies a request (four times the CPU,
docs/decisions/amqp-and-coap.md). Until now we derived from its message manager and replaced eight of its
private methods: a layer that changes with every release of a library that never promised it.

The way. The rules fill four pages of an RFC that will not change, so they stand here openly, each beside its
section. Datagrams come in by `receive`, leave by `transmit`, and time is an argument: tests play a peer, a lossy
link and a day in a millisecond. What a message looks like stays aiocoap's affair (its public `Message`).

How it works. At most one confirmable message is open towards a remote (NSTART = 1, 4.7); the next wait in a
queue. Its retransmissions are in one heap, where those that were answered are skipped when their time comes.
A confirmable request owes its sender an acknowledgement within `empty_ack_delay_s`: all delays are equal, so a
queue in the order of arrival serves as well as a timer each. `next_deadline_s` says when `expire` has work.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from aiocoap import Message
from aiocoap.numbers.types import ACK, CON, NON, RST, Type

from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.message_ids import NextMessageIds, SeenMessageIds
from gateways.protocols.coap.parameters import PARAMETERS, TransmissionParameters

_EMPTY: Final = 0
_FIRST_RESPONSE: Final = 64  # 2.00; requests are 0.01 to 0.31 (RFC 7252, 12.1)
_EMPTY_ACK: Final = bytes((0x60, _EMPTY))  # version 1, type ACK, no token (RFC 7252, 3)
_EMPTY_RST: Final = bytes((0x70, _EMPTY))
_PING: Final = bytes((0x40, _EMPTY))
# Confirmable messages that are on their way, or wait for their turn, to all remotes together.
MAX_EXCHANGES: Final = 100_000
_REMEMBERED_PER_CLIENT: Final = 64
_REMEMBERED_PER_SERVER: Final = 65_536
_Value = TypeVar("_Value")


class Upper:
    """What the message layer tells the layer above it; here, an endpoint that serves and awaits nothing."""

    # aiocoap's codec warns of what a strange peer sends, line by line; here the counters do.
    logging.getLogger("coap").setLevel(logging.ERROR)

    def process_request(self, request: Message) -> None:
        """Take a request that is no duplicate."""

    def rejects(self, response: Message) -> bool:
        """Say whether a response has a critical option that this end does not know (RFC 7252, 5.4.1)."""
        return response.bad_option is not None

    def process_response(self, response: Message) -> bool:
        """Take a response; False when nobody waits for it, and a confirmable one is then reset."""
        del response
        return False

    def timed_out(self, remote: Remote, messages: int) -> None:
        """The retransmissions to `remote` are used up: one exchange and what waited behind it are given up."""

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        """The peer has acknowledged and will answer later (RFC 7252, 5.2.2)."""

    def exchange_over(self, remote: Remote) -> None:
        """The confirmable exchange with `remote` has ended by ACK or RST, and none follows."""

    def heard(self, remote: Remote) -> None:
        """Something other than a request has come from `remote`: it responds."""

    def datagram_unsent(self) -> None:
        """The system did not take a datagram (no route, full buffer): it is lost, as on any link."""

    def newer(self, message: Message) -> Message | None:
        """Return what shall go out in place of a retransmission of `message` (RFC 7641, 4.5.2), or None."""
        del message
        return None


@dataclass(slots=True, eq=False)
class Exchange:
    """One confirmable message on its way (RFC 7252, 4.2).

    Attributes:
        datagram: every transmission is these same bytes.
        timeout_s: of the next retransmission; it doubles.
        reset: called when the peer resets the message.
    """

    message: Message
    datagram: bytes
    timeout_s: float
    reset: Callable[[], None] | None = None
    retransmissions: int = 0
    over: bool = False


class MessageLayer:
    """One CoAP endpoint's rules.

    Args:
        transmit: puts a datagram on the wire; a datagram that it loses is lost as on any link.
        server: keeps more in mind of what it has sent, for many remotes.
        clock: seconds, for the age of Message IDs.

    Attributes:
        duplicates: requests that came again under the same Message ID.
        malformed: datagrams that are no CoAP.
        over_limit: confirmable messages that were not sent, since `MAX_EXCHANGES` were not acknowledged.
    """

    def __init__(
        self,
        upper: Upper,
        transmit: Callable[[bytes, Remote], None],
        *,
        parameters: TransmissionParameters = PARAMETERS,
        server: bool = False,
        clock: Callable[[], float],
    ) -> None:
        self.transmit = transmit
        self.duplicates = 0
        self.malformed = 0
        self.over_limit = 0
        self._upper = upper
        self._parameters = parameters
        self._ids = NextMessageIds()
        self._clock = clock
        self._seen: dict[Type, SeenMessageIds] = {}  # made with the first request: a client gets none
        self._exchanges: dict[Remote, Exchange] = {}
        self._waiting: dict[Remote, deque[Exchange]] = {}
        self._queued = 0
        self._retransmissions: list[tuple[float, int, Exchange]] = []
        self._order = itertools.count()
        self._unacknowledged: set[tuple[Remote, int]] = set()
        self._acknowledge_by: deque[tuple[float, Remote, int]] = deque()
        self._remembered = _REMEMBERED_PER_SERVER if server else _REMEMBERED_PER_CLIENT
        self._resettable: dict[tuple[Remote, int], Callable[[], None]] = {}
        self._accepted: dict[tuple[Remote, int], None] = {}

    def remembered(self) -> int:
        """Return how many Message IDs are kept to find duplicates."""
        return sum(len(seen) for seen in self._seen.values())

    def busy(self, remote: Remote) -> bool:
        """Say whether a confirmable exchange with `remote` is open (NSTART = 1, RFC 7252, 4.7)."""
        return remote in self._exchanges

    # Out.

    def send(
        self,
        message: Message,
        now_s: float,
        *,
        confirmable: bool,
        reset: Callable[[], None] | None = None,
    ) -> Exchange | None:
        """Send a request, a notification or a separate response under a new Message ID; its `remote` is set.

        A confirmable message is retransmitted until it is acknowledged (4.2), and its exchange is returned;
        another is sent once (4.3), and None is returned. `reset` is called when the peer answers with a Reset.
        """
        remote: Remote = message.remote
        message.mid = self._ids.take(remote)
        if not confirmable:
            message.mtype = NON
            if reset is not None:
                _remember(self._resettable, (remote, message.mid), reset, self._remembered)
            self.transmit(message.encode(), remote)
            return None
        message.mtype = CON
        exchange = Exchange(message, message.encode(), self._first_timeout_s(), reset)
        self._start(exchange, remote, now_s)
        return exchange

    def repeat(self, exchange: Exchange, now_s: float) -> Exchange:
        """Send a confirmable message that is over once more, under its own Message ID (4.5).

        To a peer that still works on it this is a duplicate, which it acknowledges and does not take again; to
        one that has lost it (it was started anew) it is the message. Not after EXCHANGE_LIFETIME.
        """
        again = Exchange(exchange.message, exchange.datagram, self._first_timeout_s(), exchange.reset)
        self._start(again, again.message.remote, now_s)
        return again

    def respond(self, request: Message, response: Message, now_s: float) -> None:
        """Answer a request: in its acknowledgement while that is owed, else separately (5.2.1 to 5.2.3)."""
        remote: Remote = request.remote
        response.remote, response.token = remote, request.token
        wanted = not _unwanted(request, response)
        if request.mtype is not CON:
            if wanted:  # 5.2.3: a NON request gets a NON response
                self.send(response, now_s, confirmable=False)
            return
        piggybacked = (remote, request.mid) in self._unacknowledged
        self._unacknowledged.discard((remote, request.mid))
        response.mtype, response.mid = ACK, request.mid
        datagram = response.encode() if wanted else _EMPTY_ACK + request.mid.to_bytes(2, "big")
        # Who asks again under the same Message ID is told at once, also when the response below is lost.
        self._seen[CON].answer(remote, request.mid, datagram)
        if piggybacked:
            self.transmit(datagram, remote)
        elif wanted:
            self.send(response, now_s, confirmable=True)

    def ping(self, remote: Remote) -> None:
        """Send an Empty CON, four bytes that any CoAP endpoint answers with a Reset (4.3); once, unrepeated."""
        self.transmit(_PING + self._ids.take(remote).to_bytes(2, "big"), remote)

    def forget(self, remote: Remote) -> None:
        """Give up the exchange with `remote` and what waits behind it: no more retransmissions."""
        exchange = self._exchanges.pop(remote, None)
        if exchange is not None:
            exchange.over = True
        self._queued -= len(self._waiting.pop(remote, ()))

    # In.

    def receive(self, datagram: bytes, remote: Remote, now_s: float) -> None:
        """Take one datagram; a malformed one is counted and, if confirmable, reset (4.2)."""
        message = decoded(datagram, remote)
        if message is None:
            self._reject(datagram, remote)
            return
        code, kind = int(message.code), message.mtype
        if _EMPTY < code < _FIRST_RESPONSE and kind in (CON, NON):
            self._request(message, now_s)
            return
        if kind in (ACK, RST):
            if (kind is RST and code != _EMPTY) or _EMPTY < code < _FIRST_RESPONSE:
                self.malformed += 1  # 4.2: a Reset is Empty, an ACK is Empty or carries a response
                return
            self._upper.heard(remote)
            if code != _EMPTY and self._upper.rejects(message):
                return  # 5.4.1, 4.2: an ACK is rejected by ignoring it, and the retransmissions go on
            self._settle(message, now_s)
            if code != _EMPTY:
                self._upper.process_response(message)
        elif code == _EMPTY:
            self._reject(datagram, remote, malformed=kind is NON)  # 4.3: a ping, and a NON is never Empty
        else:
            self._upper.heard(remote)
            self._response(message)

    def _reject(self, datagram: bytes, remote: Remote, *, malformed: bool = True) -> None:
        """Answer with a Reset what looks confirmable (4.2); ignore the rest (4.3)."""
        self.malformed += malformed
        if len(datagram) >= 4 and datagram[0] >> 4 == 0b0100:
            self.transmit(_EMPTY_RST + datagram[2:4], remote)

    def _request(self, request: Message, now_s: float) -> None:
        """Pass a request on once; answer a duplicate as before (4.5)."""
        remote, message_id, kind = request.remote, request.mid, request.mtype
        seen = self._seen.get(kind)
        if seen is None:
            # 4.5: a Message ID names the same message for EXCHANGE_LIFETIME (CON) or NON_LIFETIME (NON).
            times = self._parameters
            lifetime_s = times.exchange_lifetime_s if kind is CON else times.non_lifetime_s
            seen = self._seen[kind] = SeenMessageIds(lifetime_s, clock=self._clock)
        known = seen.find(remote, message_id)
        if known is not None:
            self.duplicates += 1
            if known and kind is CON:
                self.transmit(known, remote)
            return
        seen.keep(remote, message_id, b"")
        if kind is CON:
            self._unacknowledged.add((remote, message_id))
            self._acknowledge_by.append((now_s + self._parameters.empty_ack_delay_s, remote, message_id))
        self._upper.process_request(request)

    def _response(self, response: Message) -> None:
        """Pass on a response that came in a message of its own; acknowledge or reset a CON (5.2.2, 4.2)."""
        remote, message_id = response.remote, response.mid
        if self._upper.rejects(response):  # 5.4.1, 4.2, 4.3
            self.transmit(_EMPTY_RST + message_id.to_bytes(2, "big"), remote)
            return
        accepted = self._upper.process_response(response)
        if response.mtype is not CON:
            return
        # 4.5: a duplicate of an accepted response is acknowledged as the first was, though nobody awaits it.
        if accepted:
            _remember(self._accepted, (remote, message_id), None, self._remembered)
        taken = accepted or (remote, message_id) in self._accepted
        self.transmit((_EMPTY_ACK if taken else _EMPTY_RST) + message_id.to_bytes(2, "big"), remote)

    def _settle(self, message: Message, now_s: float) -> None:
        """End the exchange that an ACK or a Reset is for (4.2); a Reset of a NON finds its sender too (4.3)."""
        remote, message_id = message.remote, message.mid
        exchange = self._exchanges.get(remote)
        if exchange is None or exchange.message.mid != message_id:
            reset = self._resettable.pop((remote, message_id), None)
            if reset is not None and message.mtype is RST:
                reset()
            return
        del self._exchanges[remote]
        exchange.over = True
        self._next(remote, now_s)
        if message.mtype is RST:
            if exchange.reset is not None:
                exchange.reset()
        elif message.code == _EMPTY:
            self._upper.acknowledged_empty(remote, message_id)
        if remote not in self._exchanges:
            self._upper.exchange_over(remote)

    # Time.

    def next_deadline_s(self) -> float | None:
        """Return when `expire` has something to do; None: nothing is open."""
        due, owed = self._retransmissions, self._acknowledge_by
        while owed and owed[0][1:] not in self._unacknowledged:
            owed.popleft()
        while due and due[0][2].over:
            heapq.heappop(due)
        if owed and due:
            return min(owed[0][0], due[0][0])
        if owed:
            return owed[0][0]
        return due[0][0] if due else None

    def expire(self, now_s: float) -> None:
        """Acknowledge what has waited long enough, retransmit what is due, give up what has been retransmitted."""
        owed, due = self._acknowledge_by, self._retransmissions
        while owed and owed[0][0] <= now_s:
            _, remote, message_id = owed.popleft()
            if (remote, message_id) in self._unacknowledged:
                self._unacknowledged.remove((remote, message_id))
                datagram = _EMPTY_ACK + message_id.to_bytes(2, "big")  # 5.2.2: the response will be separate
                self._seen[CON].answer(remote, message_id, datagram)
                self.transmit(datagram, remote)
        while due and due[0][0] <= now_s:
            exchange = heapq.heappop(due)[2]
            if not exchange.over:
                self._retransmit(exchange, now_s)

    def _retransmit(self, exchange: Exchange, now_s: float) -> None:
        """Send a CON again, MAX_RETRANSMIT times at doubling intervals, then give it up (4.2)."""
        remote: Remote = exchange.message.remote
        if exchange.retransmissions >= self._parameters.max_retransmit:
            exchange.over = True
            del self._exchanges[remote]
            behind = len(self._waiting.pop(remote, ()))
            self._queued -= behind
            self._upper.timed_out(remote, 1 + behind)
            return
        newer = self._upper.newer(exchange.message)
        if newer is not None:  # RFC 7641, 4.5.2: a new message, and the count goes on
            newer.mtype, newer.mid = CON, self._ids.take(remote)
            exchange.message, exchange.datagram = newer, newer.encode()
        exchange.retransmissions += 1
        exchange.timeout_s *= 2
        heapq.heappush(self._retransmissions, (now_s + exchange.timeout_s, next(self._order), exchange))
        self.transmit(exchange.datagram, remote)

    def _first_timeout_s(self) -> float:
        """Return a time between ACK_TIMEOUT and ACK_TIMEOUT * ACK_RANDOM_FACTOR (4.2)."""
        timeout_s = self._parameters.ack_timeout_s
        return random.uniform(timeout_s, timeout_s * self._parameters.ack_random_factor)

    def _start(self, exchange: Exchange, remote: Remote, now_s: float) -> None:
        """Open the exchange, or queue it behind the one that is open (NSTART = 1, 4.7).

        Beyond the limit it is lost, as on any link: who asks again under its request's Message ID is told.
        """
        if len(self._exchanges) + self._queued >= MAX_EXCHANGES:
            exchange.over = True
            self.over_limit += 1
            return
        if remote in self._exchanges:
            self._queued += 1
            self._waiting.setdefault(remote, deque()).append(exchange)
            return
        self._exchanges[remote] = exchange
        heapq.heappush(self._retransmissions, (now_s + exchange.timeout_s, next(self._order), exchange))
        self.transmit(exchange.datagram, remote)

    def _next(self, remote: Remote, now_s: float) -> None:
        waiting = self._waiting.get(remote)
        if waiting is None:
            return
        exchange = waiting.popleft()
        self._queued -= 1
        if not waiting:
            del self._waiting[remote]
        self._start(exchange, remote, now_s)


def _unwanted(request: Message, response: Message) -> bool:
    """Say whether the client has asked not to be told (No-Response, RFC 7967, 2.1)."""
    no_response = request.opt.no_response
    return bool(no_response) and bool(no_response & 1 << (int(response.code) >> 5) - 1)


def _remember(
    memory: dict[tuple[Remote, int], _Value], key: tuple[Remote, int], value: _Value, limit: int
) -> None:
    memory[key] = value
    if len(memory) > limit:
        del memory[next(iter(memory))]
